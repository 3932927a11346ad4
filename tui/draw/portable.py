"""Convert a picture to 7-bit characters (`--ascii`), or to an SVG file without remote fonts.

Each glyph of the dashboard has an ASCII substitute of the same width. Other characters, in text
from outside, become one `?` per cell.
"""

import re

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

_STAND_INS = {
    **dict(zip("▁▂▃▄▅▆▇█", "__.-=+##", strict=True)),
    "▌": "|", "░": "%", "▓": "=", "·": ".", "…": "~", "↺": "@", "↵": "\\", "→": ">", "←": "<",
    "↑": "^", "↓": "v", "●": "*", "▶": ">", "■": "#", "│": "|", "─": "-", "├": "+", "└": "`",
    "┌": "+", "┐": "+", "┘": "+", "┤": "+", "┼": "+", "┴": "^", "┬": "v", "╴": "-", "◀": "<",
    "⏸": "=", "×": "x", "≡": "=", "≠": "#", "━": "=", "┷": "^", "┯": "v", "┿": "+", "✓": "v", "✗": "x",
    "•": ".", "–": "-", "❱": ">", "’": "'", "‘": "'", "“": '"', "”": '"',
}  # fmt: skip


def to_ascii(text: str) -> str:
    if text.isascii():
        return text
    return "".join(c if c.isascii() else _STAND_INS.get(c, "?" * cell_len(c)) for c in text)


class Ascii:
    """Wraps a Rich renderable and converts its text to 7-bit characters."""

    def __init__(self, drawn: RenderableType) -> None:
        self._drawn = drawn

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in console.render(self._drawn, options):
            yield Segment(to_ascii(text), style, control)


_REMOTE_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def standalone(svg: str) -> str:
    """Textual's SVG of a screen, with the viewer's own monospaced font instead of a remote one.

    `xml:space` is set because some viewers drop spaces at the ends of a text, which shifts columns.
    """
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
    return _REMOTE_FONTS.sub("", svg).replace("Fira Code", "ui-monospace")
