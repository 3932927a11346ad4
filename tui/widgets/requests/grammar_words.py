"""What a grammar left for a token of a watched sequence, as words in a row.

12 allowed                 the grammar allows 12 tokens
1 allowed, forced  [Sure]  it allows one; the model itself preferred `Sure`, struck out
"""

from minivllm.text import visible
from minivllm.tui.draw.drafts import FORCED_STYLE, REJECTED, bracketed
from minivllm.tui.draw.lines import Row
from minivllm.tui.state.explanations import refused_favourite
from minivllm.tui.state.model import DashboardModel


def put_grammar(row: Row, model: DashboardModel, seq_id: str, *, narrow: bool = False) -> None:
    """Append what the grammar left for the newest token, or for the next one before its draw.

    narrow: without the refused token, and one word for a forced one
    """
    sequence, event = model.fold.sequences[seq_id], model.explanations.of(seq_id)
    grammar = sequence.grammar
    if grammar is None or grammar.position < sequence.num_tokens - 1:
        return  # the newest token is not a watched one
    words = f"{grammar.num_allowed:,} allowed"
    if grammar.num_allowed == 1:
        words = "forced" if narrow else f"{words}, forced"
    row.put(words, FORCED_STYLE if grammar.num_allowed == 1 else "muted").put("  ")
    if narrow or event is None or event.position != grammar.position:
        return
    refused = refused_favourite(event)
    if refused is not None and refused.token_id == grammar.refused_token_id:
        row.put(refused_word(model, grammar.refused_token_id), REJECTED).put("  ")


def refused_word(model: DashboardModel, token_id: int) -> str:
    """The refused token in the brackets of a rejected draft."""
    return bracketed(visible(model.fold.token_pieces.get(token_id, str(token_id))), False)
