"""`Canvas`: the few shapes that every diagram is made of.

A canvas is 360 units wide, the width of a phone, so a text of 13.5 units is readable there; a
diagram needs more height instead of more width. A *cell* is a token or a slot, a *block* a row of
cells in one frame. Both have the colour of their request, or are dashed if they are empty.
"""

from collections.abc import Sequence as Seq
from html import escape
from math import atan2, cos, pi, sin
from textwrap import wrap

from diagrams.colours import hue_of, style_sheet

WIDTH = 360
MARGIN = 16
CELL = 20
"""Height of a cell."""
CHARACTER = 7.2
"""Mean width of a character of text, generously."""
LINE = 19
"""From one line of text to the next."""

Point = tuple[float, float]


class Canvas:
    def __init__(self, title: str) -> None:
        self._parts: list[str] = []
        self._bottom = 0.0
        self.text(MARGIN, 30, title, "text title")

    # ---- text ----

    def text(self, x: float, y: float, words: str, style: str = "text", anchor: str = "") -> None:
        """y: the base line; anchor: `middle` or `end`, else the text begins at x"""
        at = f' text-anchor="{anchor}"' if anchor else ""
        self._add(
            f'<text class="{style}" x="{_n(x)}" y="{_n(y)}"{at}>{escape(words, quote=False)}</text>'
        )
        self._bottom = max(self._bottom, y)

    def lines(self, x: float, y: float, rows: Seq[str], style: str = "muted") -> float:
        """Write rows of text below each other. Returns the base line of the next one."""
        for row in rows:
            self.text(x, y, row, style)
            y += LINE
        return y

    def paragraph(self, x: float, y: float, words: str, style: str = "text") -> float:
        """Write a text in lines up to the right margin. Returns the base line of the next one."""
        room = int((WIDTH - MARGIN - x) / CHARACTER)
        return self.lines(x, y, wrap(words, room), style)

    def name(self, x: float, y: float, request: str, anchor: str = "") -> None:
        """A request's name, in its colour."""
        self.text(x, y, request, f"t{hue_of(request)} strong", anchor)

    # ---- shapes ----

    def rect(
        self, x: float, y: float, width: float, height: float, style: str, corner: float = 3
    ) -> None:
        self._add(
            f'<rect class="{style}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}"'
            f' height="{_n(height)}" rx="{_n(corner)}"/>'
        )
        self._bottom = max(self._bottom, y + height)

    def box(self, x: float, y: float, width: float, height: float, title: str = "") -> None:
        self.rect(x, y, width, height, "box", 6)
        if title:
            self.text(x + 10, y + 21, title, "text strong")

    def cell(
        self, x: float, y: float, width: float, request: str = "", label: str = "", style: str = ""
    ) -> None:
        """A token or a slot. request: whose it is; without one, the cell is empty"""
        look = style or (f"h{hue_of(request)}" if request else "empty")
        self.rect(x, y, width, CELL, look, 2)
        if label:
            colour = "text" if request or style else "muted"
            self.text(x + width / 2, y + 14.8, label, f"{colour} mono", "middle")

    def cells(self, x: float, y: float, width: float, request: str, labels: Seq[str]) -> float:
        """Cells side by side. Returns the x behind the last one."""
        for label in labels:
            self.cell(x, y, width, request, label)
            x += width
        return x

    def block(
        self, x: float, y: float, width: float, request: str, filled: int, size: int,
        label: str = "",
    ) -> None:  # fmt: skip
        """A block of `size` slots, of which the first `filled` hold a token."""
        style = f"h{hue_of(request)}" if request else "empty"
        slot = width / size
        if filled:
            self.rect(x, y, slot * filled, CELL, style, 2)
        self.rect(x, y, width, CELL, f"line {_outline(request)}", 2)
        for number in range(1, size):
            self.path([(x + slot * number, y), (x + slot * number, y + CELL)], _outline(request))
        if label:
            self.text(x + width / 2, y + 14.8, label, "text mono strong", "middle")

    def path(self, points: Seq[Point], style: str = "") -> None:
        at = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        self._add(f'<polyline class="line {style}" points="{at}"/>'.replace(' "', '"'))
        self._bottom = max(self._bottom, *(y for _, y in points))

    def arrow(self, points: Seq[Point], style: str = "") -> None:
        """A line through the points with a head at the last one."""
        (x0, y0), (x, y) = points[-2:]
        angle, size = atan2(y - y0, x - x0), 7
        neck = (x - size * cos(angle), y - size * sin(angle))
        self.path([*points[:-1], neck], style)
        wings = [
            (x - size * 1.25 * cos(angle + turn), y - size * 1.25 * sin(angle + turn))
            for turn in (-pi / 7, pi / 7)
        ]
        at = " ".join(f"{_n(px)},{_n(py)}" for px, py in ((x, y), *wings))
        colour = " ".join(word for word in style.split() if word not in ("dashed", "thick"))
        self._add(f'<polygon class="head {colour}" points="{at}"/>'.replace(' "', '"'))

    def circle(self, x: float, y: float, radius: float, style: str) -> None:
        self._add(f'<circle class="{style}" cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"/>')

    # ---- the file ----

    def svg(self, name: str, title: str, description: str) -> str:
        """name: makes ids that are unique on a page with several diagrams"""
        height = round(self._bottom + 18)
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{round(WIDTH * 1.25)}"'
                f' height="{round(height * 1.25)}" viewBox="0 0 {WIDTH} {height}" role="img"'
                f' aria-labelledby="{name}-title {name}-desc">',
                f'<title id="{name}-title">{escape(title, quote=False)}</title>',
                f'<desc id="{name}-desc">{escape(description, quote=False)}</desc>',
                f"<style>{style_sheet()}</style>",
                f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}"'
                ' rx="8"/>',
                *self._parts,
                "</svg>",
                "",
            ]
        )

    def _add(self, element: str) -> None:
        self._parts.append(element)


def _outline(request: str) -> str:
    return f"l{hue_of(request)}" if request else "dashed"


def _n(value: float) -> str:
    """At most one decimal, so that no machine rounds differently."""
    return f"{round(value, 1):g}"
