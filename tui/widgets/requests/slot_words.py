"""The ends of a sequence's prompt and text, in one row of a slot. A click on a word selects its block.

Each block's words are joined from the pieces of its tokens. Words that cannot be found in the text
(an old recording has no pieces) are drawn too, but select nothing.
"""

from collections.abc import Sequence

from minivllm.events.state import SequenceState
from minivllm.text import clean, tail
from minivllm.tui.draw.lines import Row
from minivllm.tui.draw.selection import block
from minivllm.tui.state.model import DashboardModel

_LONGEST_TEMPLATE = 128
"""A chat template adds at most this many characters after the user's prompt."""
_HELD_BACK = 16
"""At most this many characters of a text wait for their last byte, or for a stop string."""


def put_text(row: Row, model: DashboardModel, sequence: SequenceState) -> None:
    """Append the newest part of the text."""
    text, first = tail(sequence.text, row.room), sequence.num_prompt_tokens
    token_ids = sequence.output_token_ids
    _put(row, text, _ending(model, first, token_ids, len(text) + _HELD_BACK), sequence, "text")


def put_prompt(row: Row, model: DashboardModel, sequence: SequenceState) -> None:
    """Append the end of the prompt: prompts often begin alike, and the question is at the end."""
    request = model.fold.requests[sequence.request_id]
    if request.prompt is not None and row.room > 12:
        row.put("prompt ", "faint")
        text, token_ids = tail(request.prompt, row.room), request.prompt_token_ids
        _put(
            row,
            text,
            _ending(model, 0, token_ids, len(text) + _LONGEST_TEMPLATE),
            sequence,
            "muted",
        )


def _ending(
    model: DashboardModel, first: int, token_ids: Sequence[int], length: int
) -> list[tuple[int, str]]:
    """(entry, words) of the last entries, with `length` characters or more.

    first: the position of the first token
    """
    size, pieces = model.header.block_size, model.fold.token_pieces
    parts: list[tuple[int, str]] = []
    entry = (first + len(token_ids) - 1) // size
    while length > 0 and (entry + 1) * size > first:
        ids = token_ids[max(entry * size - first, 0) : (entry + 1) * size - first]
        words = "".join([pieces.get(token_id, "") for token_id in ids])
        parts.append((entry, words))
        length -= len(words)
        entry -= 1
    return parts[::-1]


def _put(
    row: Row, text: str, parts: list[tuple[int, str]], sequence: SequenceState, style: str
) -> None:
    """Append `text`, which ends in the words of `parts`."""
    words = "".join([part for _, part in parts])
    shown = clean(words)
    start, found = _find(text.removeprefix("…"), shown)
    at, stop = len(text) - found, 0
    row.put(text[:at], style)
    for entry, part in parts:
        stop += len(part)
        # Clean the words so far as one text: a line break swallows the spaces after it.
        ends = stop if len(shown) == len(words) else len(clean(words[:stop]))
        if ends <= start:
            continue
        piece = text[at : at + ends - start]
        # The newest token has no block before its keys and values are computed.
        has_block = entry < len(sequence.block_table)
        row.put(piece, style, target=block(sequence.block_table[entry]) if has_block else None)
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
