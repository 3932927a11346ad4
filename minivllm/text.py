"""Make text from outside safe, and short enough to draw in a terminal.

Prompts, outputs, model names and request ids may contain escape sequences that move the cursor, or
marks that reverse the line. All such text must pass through `clean`. Widths are in terminal cells:
a Chinese character or an emoji takes two cells.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate, takewhile
from types import ModuleType
from zlib import crc32

# Characters that draw nothing or draw elsewhere: controls (C0, DEL, C1), zero-width and direction
# marks, line separators, variation selectors, lone surrogates, private use, tags.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff0-\ufffb"
    "\ud800-\udfff\ue000-\uf8ff\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
_NEWLINE = re.compile(r"\n\s*")

LONGEST_TEXT = 1024
"""Only this many characters of a text are processed: enough for a row, and cheap to draw."""


def clean(text: str) -> str:
    """Put `text` on one line, with ↵ for line breaks, and remove what a terminal would execute."""
    text = _NEWLINE.sub("↵", text)
    return _UNSAFE.sub("", text.replace("\t", " "))


def visible(text: str, ascii_only: bool = False) -> str:
    """Show a token's text with all its spaces and line breaks: `·the`, or `_the` in ASCII.

    Characters that a terminal would execute, or not draw, become their number, such as `<U+200B>`.
    """
    return _UNSAFE.sub(
        lambda found: f"<U+{ord(found[0]):04X}>",
        text.translate(_ASCII_MARKS if ascii_only else _MARKS),
    )


_MARKS = str.maketrans({" ": "·", "\n": "↵", "\t": "→"})
_ASCII_MARKS = str.maketrans({" ": "_", "\n": "\\n", "\t": "\\t"})


@lru_cache(4096)
def short_name(seq_id: str) -> str:
    """Return a sequence's name on screens: the request's name, and `.index` if it is not 0.

        ada.0                               ada                 a short name stays
        chatcmpl-<32 hex>-<8 hex>.0         first 6 digits      as git shortens a hash
        chatcmpl-<another id>-<8 hex>.0     8 characters ~ 4 of the hex digits
        any other long name                 8 characters ~ checksum

    The name depends only on `seq_id`, so a sequence has the same name on every screen.
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
"""A request name of up to this many characters is shown in full."""
_SERVED = re.compile(r"(?:chatcmpl|cmpl|gen)-(.+)-([0-9a-f]{8})(-\d+)?")
_UUID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def fit(text: str, width: int) -> str:
    """Pad `text` to exactly `width` cells, or cut it with an ellipsis."""
    if width <= 0:
        return ""
    if text.isascii() and text.isprintable():
        return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"
    cells = _cells()
    if cells.cell_len(text) > width:
        text = cells.set_cell_size(text, width - 1) + "…"
    return cells.set_cell_size(text, width)


def tail(text: str, width: int) -> str:
    """Return the newest part of a growing `text`, in at most `width` cells.

    The start moves in jumps of a third of the width, so that words stay in place between two jumps.
    """
    if len(text) > 2 * LONGEST_TEXT:
        # Cut at a multiple of `LONGEST_TEXT`, so that the jumps stay in place while the text grows.
        text = text[(len(text) // LONGEST_TEXT - 1) * LONGEST_TEXT :]
    text = clean(text)
    if len(text) <= width and _num_cells(text) <= width:
        return text
    fitting = width - 1 if text.isascii() else _num_fitting(text, width - 1)
    jump = max(width // 3, 1)
    hidden = -(-(len(text) - fitting) // jump) * jump
    # Start with a whole word if one is near.
    space = text.find(" ", hidden, hidden + jump // 2)
    return "…" + text[max(hidden, space + 1) :]


def _num_cells(text: str) -> int:
    """The width of a clean text."""
    return len(text) if text.isascii() else _cells().cell_len(text)


def _cells() -> ModuleType:
    from rich import cells  # late: only other alphabets need it, and the site's Python lacks it

    return cells


def _num_fitting(text: str, width: int) -> int:
    """Return how many characters at the end of `text` fit in `width` cells."""
    widths = accumulate(_num_cells(character) for character in reversed(text))
    return sum(1 for _ in takewhile(lambda used: used <= width, widths))


def id_ranges(ids: Iterable[int]) -> str:
    """Format block ids in the given order, with runs joined: `3 9-12 8 down to 5 22`."""
    runs: list[list[int]] = []
    for block_id in ids:
        run = runs[-1] if runs else None
        # A run is [first, last, step]. Its first two ids set the step; a run of one id has step 0.
        if run and abs(block_id - run[1]) == 1 and run[2] in (0, block_id - run[1]):
            run[1], run[2] = block_id, block_id - run[1]
        else:
            runs.append([block_id, block_id, 0])
    joint = {1: "-", -1: " down to "}
    return " ".join(
        f"{first}{joint[step] if abs(last - first) > 1 else ' '}{last}" if step else str(first)
        for first, last, step in runs
    )


def format_memory(num_bytes: int) -> str:
    """Format a size in binary units, as memory is measured: 13_316_915 -> "12.7 MiB"."""
    for shift, unit in ((30, "GiB"), (20, "MiB")):
        if num_bytes >= 1 << shift:
            return f"{num_bytes / (1 << shift):,.1f} {unit}"
    return f"{num_bytes / (1 << 10):.0f} KiB"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
