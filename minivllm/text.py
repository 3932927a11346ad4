"""Text that is safe and short enough to draw.

Prompts, outputs, model names and request ids come from outside. They may hold escape sequences that
would move the cursor, or marks that reverse the line. `clean` takes those out; everything from
outside must pass through it. Widths are in terminal cells: a Chinese character or an emoji takes
two.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from zlib import crc32

from rich.cells import cell_len, set_cell_size

# Control characters (C0, DEL, C1), zero-width and direction marks, line separators, variation
# selectors, lone surrogates, private use, tags: all that draws nothing or draws elsewhere.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff0-\ufffb"
    "\ud800-\udfff\ue000-\uf8ff\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
_NEWLINE = re.compile(r"\n\s*")

LONGEST_TEXT = 1024
"""Characters of a text that are looked at: enough for any row, and a frame stays cheap."""


def clean(text: str) -> str:
    """`text` on one line, without anything that a terminal would obey. A line break shows as ↵."""
    text = _NEWLINE.sub("↵", text)
    return _UNSAFE.sub("", text.replace("\t", " "))


@lru_cache(4096)
def short_name(seq_id: str) -> str:
    """A sequence's name as every panel shows it: its request's, and the index only for a second
    sequence.

    A name that somebody chose stays as it is. A server's own is `chatcmpl-<HTTP request>-<chance>`
    and forty characters long: of that, the first six digits of the HTTP request's id, as git
    shortens its hashes; of another id that is too long, its beginning and a checksum. The name
    needs the id alone, so a request is called the same everywhere and at any time.
    """
    request_id, dot, index = seq_id.rpartition(".")
    suffix = f".{index}" if dot and index != "0" else ""
    request_id = clean(request_id if dot else seq_id)
    if served := _SERVED.fullmatch(request_id):
        http, chance, number = served.groups(default="")
        name = http[:6] if _UUID.fullmatch(http) else f"{http[:8]}~{chance[:4]}"
        return f"{name}{number if number != '-0' else ''}{suffix}"
    if len(request_id) > LONGEST_NAME:
        return f"{request_id[:8]}~{crc32(request_id.encode()):08x}{suffix}"
    return request_id + suffix


LONGEST_NAME = 24
"""Of a request that is named as it is."""
_SERVED = re.compile(r"(?:chatcmpl|cmpl|gen)-(.+)-([0-9a-f]{8})(-\d+)?")
_UUID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def fit(text: str, width: int) -> str:
    """`text` in exactly `width` cells: padded, or cut with an ellipsis."""
    if width <= 0:
        return ""
    if cell_len(text) > width:
        text = set_cell_size(text, width - 1) + "…"
    return set_cell_size(text, width)


def tail(text: str, width: int) -> str:
    """The newest part of a growing `text` in at most `width` cells.

    The start moves on in jumps of a third of the width and not by one cell a token, so that the
    words stand still while they are read.
    """
    if len(text) > 2 * LONGEST_TEXT:
        # Cut at a multiple, so that the jumps stay where they are while the text grows.
        text = text[(len(text) // LONGEST_TEXT - 1) * LONGEST_TEXT :]
    text = clean(text)
    if len(text) <= width and cell_len(text) <= width:
        return text
    fitting = width - 1 if text.isascii() else _num_fitting(text, width - 1)
    jump = max(width // 3, 1)
    hidden = -(-(len(text) - fitting) // jump) * jump
    # Start with a whole word where one is near.
    space = text.find(" ", hidden, hidden + jump // 2)
    return "…" + text[max(hidden, space + 1) :]


def _num_fitting(text: str, width: int) -> int:
    """How many characters at the end of `text` fit in `width` cells."""
    fitting = 0
    for character in reversed(text):
        width -= cell_len(character)
        if width < 0:
            break
        fitting += 1
    return fitting


def id_ranges(ids: Iterable[int]) -> str:
    """Block ids in the order given, runs of neighbours joined, up or down: `3 9-12 8-5 22`."""
    runs: list[list[int]] = []
    for block_id in ids:
        run = runs[-1] if runs else None
        # A run goes on in the direction of its first two: [first, last, step], step 0 while it is
        # alone.
        if run and abs(block_id - run[1]) == 1 and run[2] in (0, block_id - run[1]):
            run[1], run[2] = block_id, block_id - run[1]
        else:
            runs.append([block_id, block_id, 0])
    return " ".join(_run(first, last) for first, last, _ in runs)


def _run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first} {last}" if abs(last - first) == 1 else f"{first}-{last}"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
