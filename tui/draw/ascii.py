"""The same picture in the characters that every terminal has (`--ascii`).

Every sign that the dashboard draws has a stand-in of the same width here; letters, digits and colours stay. The easy
thing to get wrong is text from outside, which may hold anything: what has no stand-in becomes `?`, once a cell.
"""

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

_STAND_INS = {
    **dict(zip("▁▂▃▄▅▆▇█", "__.-=+##", strict=True)),
    "░": "%", "▓": "#", "·": ".", "…": "~", "↺": "@", "↵": "/", "→": ">", "←": "<", "↑": "^", "↓": "v", "●": "*", "▶": ">", "■": "#", "│": "|", "─": "-",
    "├": "+", "└": "`", "┌": "+", "┐": "+", "┘": "+", "┤": "+", "┼": "+", "╴": "-", "◀": "<", "⏸": "=", "×": "x", "≡": "=", "≠": "!", "━": "=", "✓": "v", "–": "-", "❱": ">",
    "’": "'", "‘": "'", "“": '"', "”": '"',
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
