"""Numbers in large digits, each over its label, side by side."""

from rich.cells import cell_len
from textual.renderables.digits import Digits

from minivllm.text import clean
from minivllm.tui.context import Figure
from minivllm.tui.draw.digits import large_digits
from minivllm.tui.draw.lines import Line, Row

_GAP = 3
_STYLES = ("good", "accent", "warn")


def figure_lines(figures: tuple[Figure, ...], width: int, *, large: bool) -> list[Line]:
    """large: use digits of three rows if they fit; else one line of the figures that fit"""
    if not figures:
        return []
    figures = tuple(Figure(clean(figure.number), clean(figure.label)) for figure in figures)
    column = (width - _GAP * (len(figures) - 1)) // len(figures)
    widest = max(max(Digits.get_width(figure.number), cell_len(figure.label)) for figure in figures)
    styled = [(figure, _STYLES[at % len(_STYLES)]) for at, figure in enumerate(figures)]
    if not large or widest > column:
        row = Row(width)
        for figure, style in styled:
            if cell_len(f"{figure.number} {figure.label}") <= row.room:
                row.put(figure.number, f"{style}*").put(f" {figure.label}{' ' * _GAP}", "muted")
        return [row.line()]
    rows = [Row(width) for _ in range(4)]
    for figure, style in styled:
        for row, text in zip(rows, large_digits(figure.number), strict=False):
            row.put(text, f"{style}*", column)
        rows[3].put(figure.label, "muted", column)
        for row in rows:
            row.put(" " * min(_GAP, row.room))
    return [row.line() for row in rows]
