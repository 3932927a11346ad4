"""`PanelRow` and `PanelColumn`: containers for panels, with a cheaper `render_lines`.

For each row of a frame, Textual computes style, padding and border of every widget. These
containers have none, so they return blanks in the colour of the screen behind them. It is read each
time, because the theme can change.
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
    """Panels below each other."""

    def render_lines(self, crop: Region) -> list[Strip]:
        return _ground(self, crop)


def _ground(box: Widget, crop: Region) -> list[Strip]:
    _, background = box.background_colors
    row = Strip.blank(crop.width, Style(bgcolor=background.rich_color))
    for one in box.get_line_filters():  # NO_COLOR is such a filter
        row = row.apply_filter(one, background)
    return [row] * crop.height
