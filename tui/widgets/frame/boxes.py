"""`PanelRow` and `PanelColumn`: boxes that put panels side by side and one under the other, with
nothing of their own.

Textual composes each row of a frame from all widgets there, boxes included, and works out style,
padding and border of each. A box here has none of these, so `render_lines` is overridden to give
blanks in the colour of the screen behind it, read anew each time because the theme may change.
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
