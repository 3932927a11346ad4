"""The same picture elsewhere: in 7-bit characters (`--ascii`), or as an SVG file without remote
fonts.

Every sign that the dashboard draws has an ASCII stand-in of the same width; letters, digits and
colours stay. Text from outside may hold any character: what has no stand-in becomes `?`, once a
cell.
"""

import re

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

_STAND_INS = {
    **dict(zip("▁▂▃▄▅▆▇█", "__.-=+##", strict=True)),
    "░": "%", "▓": "#", "·": ".", "…": "~", "↺": "@", "↵": "/", "→": ">", "←": "<", "↑": "^",
    "↓": "v", "●": "*", "▶": ">", "■": "#", "│": "|", "─": "-", "├": "+", "└": "`", "┌": "+",
    "┐": "+", "┘": "+", "┤": "+", "┼": "+", "╴": "-", "◀": "<", "⏸": "=", "×": "x", "≡": "=",
    "≠": "!", "━": "=", "✓": "v", "–": "-", "❱": ">", "’": "'", "‘": "'", "“": '"', "”": '"',
}  # fmt: skip


def to_ascii(text: str) -> str:
    """`text` in 7-bit characters, in as many cells."""
    if text.isascii():
        return text
    return "".join(c if c.isascii() else _STAND_INS.get(c, "?" * cell_len(c)) for c in text)


class Ascii:
    """Anything that Rich can draw, in 7-bit characters."""

    def __init__(self, drawn: RenderableType) -> None:
        self._drawn = drawn

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in console.render(self._drawn, options):
            yield Segment(to_ascii(text), style, control)


_REMOTE_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def standalone(svg: str) -> str:
    """Textual's SVG of a screen without fonts from another host: a viewer uses its own monospaced
    font.

    Blanks are preserved, because some viewers drop those at the ends of a text and columns would no
    longer meet.
    """
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
    return _REMOTE_FONTS.sub("", svg).replace("Fira Code", "ui-monospace")
