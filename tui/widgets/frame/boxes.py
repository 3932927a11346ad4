"""`PanelRow` and `PanelColumn`: boxes that put panels beside and under one another, and are nothing but ground themselves.

Textual composes every row of a frame from all widgets that lie there, boxes included, and works out styles, padding and
borders of each. These have none of it, so a row of one is a strip of blanks. The easy thing to get wrong is the ground: a
box has none of its own, so it is that of the screen, also after a change of theme.
"""

from rich.style import Style
from textual.containers import Horizontal, Vertical
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


class PanelRow(Horizontal):
    """Panels side by side."""

    def render_lines(self, crop: Region) -> list[Strip]:
        return _ground(self, crop)


class PanelColumn(Vertical):
    """Panels one under the other."""

    def render_lines(self, crop: Region) -> list[Strip]:
        return _ground(self, crop)


def _ground(box: Widget, crop: Region) -> list[Strip]:
    _, background = box.background_colors
    row = Strip.blank(crop.width, Style(bgcolor=background.rich_color))
    for one in box.get_line_filters():  # no colour
        row = row.apply_filter(one, background)
    return [row] * crop.height
