"""The drafts of a sequence, and what its grammar allowed, as marks on words: see `draw.drafts`.

the cat sat on [mat and slept]              proposed
the cat sat on mat and [slept] purred       verified: two are right, then the model's own token
"""

from typing import NamedTuple

from rich.cells import cell_len

from minivllm.text import clean, fit, visible
from minivllm.tui.draw.drafts import FORCED_STYLE, PENDING, REJECTED, bracketed, draft_style
from minivllm.tui.draw.lines import Row, Span
from minivllm.tui.state.drafts import SequenceDrafts
from minivllm.tui.state.explanations import refused_favourite
from minivllm.tui.state.model import DashboardModel

_EIGHTHS = "▁▂▃▄▅▆▇█"


class Marks(NamedTuple):
    styles: dict[int, str]
    """Position -> style of an accepted draft; forced ones have their own."""
    asides: dict[int, str]
    """Position -> rejected drafts, drawn before the token at this position."""
    ending: list[Span]
    """Drafts behind the end of the text."""


def marks_of(model: DashboardModel, seq_id: str, room: int, *, past: bool = False) -> Marks | None:
    """The marks for a live sequence's drafts of this step; None without drafts.

    room: the most cells for the words of a draft, so that the text beside it can be seen
    past: also those of earlier steps, as far as they are known
    """
    if past:
        mine = model.drafts.by_seq.get(seq_id)
        drafts = [] if mine is None else mine.recent
    else:
        current = model.drafts.current(seq_id, model.fold.step)
        drafts = [] if current is None else [current]
    if not drafts:
        return None
    marks = Marks({}, {}, [])
    end = model.fold.sequences[seq_id].num_tokens
    for draft in drafts:
        accepted = draft.num_accepted
        if accepted is None:
            if draft.step == model.fold.step:
                marks.ending.append((_in_brackets(model, draft.token_ids, None, room), PENDING))
            continue
        stop = draft.position + accepted
        right = draft_style(True, forced=draft.forced)
        marks.styles.update(dict.fromkeys(range(draft.position, stop), right))
        if not draft.rejected and end >= stop:
            continue
        # The accepted tokens become part of the text one by one, after the verification.
        coming = draft.token_ids[max(end - draft.position, 0) : accepted]
        if coming:
            marks.ending.append((_words(model, coming), right))
        if draft.rejected:
            words = _in_brackets(model, draft.rejected, False, room)
            if stop < end:
                marks.asides[stop] = words
            else:
                marks.ending.append((words, REJECTED))
    return marks


def _words(model: DashboardModel, token_ids: list[int]) -> str:
    pieces = model.fold.token_pieces
    return clean("".join([pieces.get(token_id, f" {token_id}") for token_id in token_ids]))


def _in_brackets(
    model: DashboardModel, token_ids: list[int], is_right: bool | None, room: int
) -> str:
    """The words in brackets; a space before the first word stays before the bracket."""
    words = _words(model, token_ids)
    bare = words.lstrip(" ")
    space = words[: len(words) - len(bare)]
    if cell_len(words) + 2 > room:
        bare = fit(bare, max(room - 3, 1))
    return space + bracketed(bare, is_right)


def acceptance(mine: SequenceDrafts) -> str:
    """How many of a sequence's drafts were right, in words, and a bar for each of the last ones."""
    if not mine.num_verified:
        return "its first drafts are not verified yet"
    verified = [draft for draft in mine.recent if draft.num_accepted is not None]
    bars = "".join(
        _EIGHTHS[draft.num_accepted * 7 // len(draft.token_ids)] if draft.num_accepted else "·"
        for draft in verified
    )
    each = 1 + mine.num_accepted / mine.num_verified
    return (
        f"{mine.num_accepted:,} of {mine.num_tokens:,} drafts right"
        f" ({mine.num_accepted / mine.num_tokens:.0%}), {each:.1f} tokens a step with drafts;"
        f" last steps {bars}"
    )


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
