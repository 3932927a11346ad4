"""Where the last token of a text looked: its words, coloured by their share of the attention.

    most: “The” 45.2%  “ sea” 12.1%
    The sea is wide and          the larger the share, the brighter the word

The words of the newest rows are drawn if there is no room for all; the rest is a sum.
"""

from rich.cells import cell_len

from minivllm.events import types as ev
from minivllm.text import clean, fit
from minivllm.tui.context import Context
from minivllm.tui.draw.lines import Line, Row, line
from minivllm.tui.draw.selection import block
from minivllm.tui.state.block_words import words
from minivllm.tui.state.explanations import piece_of
from minivllm.tui.state.model import DashboardModel

LEVELS = ((0.20, "warn*!"), (0.08, "warn*"), (0.03, "warn"), (0.01, "text"), (0.0, "faint"))
"""(share of the attention, style of a word with at least this share), largest first."""
_LONGEST_WORD = 24


def style_of(share: float) -> str:
    return next((style for least, style in LEVELS if share >= least), "faint")


def word_lines(
    model: DashboardModel, context: Context, event: ev.TokenAttention, width: int, height: int
) -> list[Line]:
    """The words with the largest shares, a legend and the text, in at most `height` rows."""
    if height <= 0:
        return []
    token_ids = _token_ids(model, event)
    shown = _text(model, context, event, token_ids, width)
    top = [_most(model, event, token_ids, width), _legend(width)][: max(height - 2, 0)]
    room = height - len(top)
    if len(shown) > room:
        shown = shown[len(shown) - room + 1 :] if room > 1 else shown[-1:]
        hidden = sum(event.weights[: shown[0][0]])
        if room > 1:
            note = f"… {hidden:.1%} on the {shown[0][0]:,} tokens before"
            top.append(line(width, (note, "muted")))
    return top + [line for _, line in shown]


def _token_ids(model: DashboardModel, event: ev.TokenAttention) -> list[int]:
    sequence = model.fold.sequences[event.seq_id]
    prompt = model.fold.requests[sequence.request_id].prompt_token_ids
    return [*prompt, *sequence.output_token_ids][: len(event.weights)]


def _legend(width: int) -> Line:
    row = Row(width).put("share ", "muted")
    for least, style in LEVELS[:-1]:
        row.put(f"{least:.0%}+", style).put(" ")
    return row.put("less", "faint").line()


def _most(
    model: DashboardModel, event: ev.TokenAttention, token_ids: list[int], width: int
) -> Line:
    """The words with the largest shares, as many as fit."""
    row = Row(width).put("most:", "muted")
    ranked = sorted(range(len(token_ids)), key=lambda at: -event.weights[at])
    for at in ranked:
        text = f" {piece_of(model.fold, token_ids[at])} {event.weights[at]:.1%}"
        if cell_len(text) > row.room:
            break
        row.put(text, style_of(event.weights[at]).removesuffix("!"))
    return row.line()


def _text(
    model: DashboardModel,
    context: Context,
    event: ev.TokenAttention,
    token_ids: list[int],
    width: int,
) -> list[tuple[int, Line]]:
    """The rows of the text, each with the position of its first token."""
    table = model.fold.sequences[event.seq_id].block_table
    size = model.header.block_size
    rows, firsts = [Row(width)], [0]
    marked = words(model, token_ids, context)
    for at, token_id in enumerate(token_ids):
        piece = clean(model.fold.token_pieces.get(token_id, ""))
        # A word that draws nothing, such as a special token without text, is shown by its marks.
        word = piece if piece.strip() else f" {marked[at]}"
        if cell_len(word) > _LONGEST_WORD:
            word = fit(word, _LONGEST_WORD)
        if cell_len(word) > rows[-1].room and rows[-1].room < width:
            rows.append(Row(width))
            firsts.append(at)
            word = word.lstrip()
        target = block(table[at // size]) if at // size < len(table) else None
        rows[-1].put(word, style_of(event.weights[at]), target=target)
    return [(first, row.line()) for first, row in zip(firsts, rows, strict=True)]
