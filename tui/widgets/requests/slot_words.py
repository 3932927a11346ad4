"""The ends of a sequence's prompt and text, in one row of a slot, with words that can be clicked.

A click selects the block that holds the word. Words are joined from the pieces of a block's tokens;
with colours of confidence, each token stands alone. Words that cannot be found in the text (an old
recording has no pieces) are drawn too, but select nothing.
"""

from collections.abc import Mapping, Sequence

from rich.cells import cell_len

from minivllm.events.state import SequenceState
from minivllm.text import clean, tail
from minivllm.tui.draw.drafts import REJECTED, confidence_style, put_word
from minivllm.tui.draw.lines import Row
from minivllm.tui.draw.selection import block
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.requests.draft_words import Marks, marks_of

_LONGEST_TEMPLATE = 128
"""A chat template adds at most this many characters after the user's prompt."""
_HELD_BACK = 16
"""At most this many characters of a text wait for their last byte, or for a stop string."""
_NO_MARKS = Marks({}, {}, [])


def put_text(
    row: Row, model: DashboardModel, seq_id: str, confidence: bool, *, past: bool = False
) -> None:
    """Append the newest part of the text, with the drafts of this step.

    confidence: colour each word by the model's probability of it, where that is known
    past: also mark the drafts of earlier steps
    """
    sequence = model.fold.sequences[seq_id]
    marks = marks_of(model, seq_id, row.room // 3, past=past) or _NO_MARKS
    judged = model.explanations.judged.get(seq_id, ()) if confidence else ()
    styles = marks.styles | {token.position: confidence_style(token.percent) for token in judged}
    beside = sum(map(cell_len, (*marks.asides.values(), *(words for words, _ in marks.ending))))
    text = tail(sequence.text, max(row.room - beside, row.room // 2))
    first = sequence.num_prompt_tokens
    size = 1 if styles or marks.asides else model.header.block_size
    parts = _ending(model, first, sequence.output_token_ids, len(text) + _HELD_BACK, size)
    _put(row, text, parts, sequence, model, "text", styles, marks.asides)
    for words, style in marks.ending:
        put_word(row, words, style, None)


def put_prompt(row: Row, model: DashboardModel, sequence: SequenceState) -> None:
    """Append the end of the prompt: prompts often begin alike, and the question is at the end."""
    request = model.fold.requests[sequence.request_id]
    if request.prompt is not None and row.room > 12:
        row.put("prompt ", "faint")
        token_ids, size = request.prompt_token_ids, model.header.block_size
        text = tail(request.prompt, row.room)
        parts = _ending(model, 0, token_ids, len(text) + _LONGEST_TEMPLATE, size)
        _put(row, text, parts, sequence, model, "muted", {}, {})


def _ending(
    model: DashboardModel, first: int, token_ids: Sequence[int], length: int, size: int
) -> list[tuple[int, str]]:
    """(position, words) of the last groups of tokens, with `length` characters or more.

    first: the position of the first token
    size: the tokens of a group: those of a block, or one
    """
    pieces = model.fold.token_pieces
    parts: list[tuple[int, str]] = []
    group = (first + len(token_ids) - 1) // size
    while length > 0 and (group + 1) * size > first:
        ids = token_ids[max(group * size - first, 0) : (group + 1) * size - first]
        words = "".join([pieces.get(token_id, "") for token_id in ids])
        parts.append((group * size, words))
        length -= len(words)
        group -= 1
    return parts[::-1]


def _put(
    row: Row,
    text: str,
    parts: list[tuple[int, str]],
    sequence: SequenceState,
    model: DashboardModel,
    style: str,
    styles: Mapping[int, str],
    asides: Mapping[int, str],
) -> None:
    """Append `text`, which ends in the words of `parts`; a click on these selects their block.

    styles: by position, for tokens that do not have the style of all others
    asides: by position, the rejected drafts before a token
    """
    table, size = sequence.block_table, model.header.block_size
    words = "".join([part for _, part in parts])
    shown = clean(words)
    start, found = _find(text.removeprefix("…"), shown)
    at, stop = len(text) - found, 0
    row.put(text[:at], style)
    for position, part in parts:
        stop += len(part)
        # Clean the words so far as one text: a line break swallows the spaces after it.
        ends = stop if len(shown) == len(words) else len(clean(words[:stop]))
        if ends <= start:
            continue
        piece = text[at : at + ends - start]
        if position in asides:
            put_word(row, asides[position], REJECTED, None)
        # The newest token has no block before its keys and values are computed.
        target = block(table[position // size]) if position // size < len(table) else None
        put_word(row, piece, styles.get(position, style), target)
        start, at = ends, at + len(piece)


def _find(text: str, words: str) -> tuple[int, int]:
    """Where the end of `text` is in `words`, and how much of it: the beginning may differ.

    A character whose bytes are in two tokens is in the text, but in neither piece.
    """
    for length in (len(text), len(text) // 2, len(text) // 4):
        found = words.rfind(text[len(text) - length :]) if length else -1
        if found >= 0:
            return found, length
    return len(words), 0
