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


def put_text(row: Row, model: DashboardModel, sequence: SequenceState) -> None:
    """Append the newest part of the text."""
    first = sequence.num_prompt_tokens
    _put(row, model, sequence, tail(sequence.text, row.room), first, sequence.output_token_ids)


def put_prompt(row: Row, model: DashboardModel, sequence: SequenceState) -> None:
    """Append the end of the prompt: prompts often begin alike, and the question is at the end."""
    request = model.fold.requests[sequence.request_id]
    if request.prompt is not None and row.room > 12:
        row.put("prompt ", "faint")
        text = tail(request.prompt, row.room)
        _put(row, model, sequence, text, 0, request.prompt_token_ids, style="muted")


def _put(
    row: Row,
    model: DashboardModel,
    sequence: SequenceState,
    text: str,
    first: int,
    token_ids: Sequence[int],
    style: str = "text",
) -> None:
    """Append `text`, the end of the words of `token_ids`; `first` is the first one's position."""
    size, pieces = model.header.block_size, model.fold.token_pieces
    wanted = len(text) + _LONGEST_TEMPLATE
    words, ends, entry = "", [], (first + len(token_ids) - 1) // size
    while len(words) < wanted and (entry + 1) * size > first:
        ids = token_ids[max(entry * size - first, 0) : (entry + 1) * size - first]
        held = "".join([pieces.get(token_id, "") for token_id in ids])
        words, ends = held + words, [*ends, (entry, len(words))]
        entry -= 1
    shown = clean(words)
    start, plain = _find(text.removeprefix("…"), shown)
    at = len(text) - plain
    row.put(text[:at], style)
    for entry, behind in reversed(ends):
        # Clean the beginning as a part of the whole: a line break swallows the spaces after it.
        stop = at + len(clean(words[: len(words) - behind])) - start
        part = text[at : max(stop, at)]
        # The newest token has no block before its keys and values are computed.
        has_block = entry < len(sequence.block_table)
        row.put(part, style, target=block(sequence.block_table[entry]) if has_block else None)
        start, at = start + len(part), at + len(part)


def _find(text: str, words: str) -> tuple[int, int]:
    """Where the end of `text` is in `words`, and how much of it: its second half may differ.

    A character whose bytes are in two tokens is in the text, but in neither piece.
    """
    for length in (len(text), len(text) // 2, len(text) // 4):
        found = words.rfind(text[len(text) - length :]) if length else -1
        if found >= 0:
            return found, length
    return len(words), 0
