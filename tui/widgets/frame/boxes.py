"""`PanelRow`, `PanelColumn` and `ground`: containers for panels, with a cheaper `render_lines`.

For each row of a frame, Textual computes the style, padding and border of every widget. These
containers have no border or padding, so they return blank rows in the background colour, which is
read each time because the theme can change.
"""

from rich.style import Style
from textual.containers import Horizontal, Vertical
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


class PanelRow(Horizontal):
    def render_lines(self, crop: Region) -> list[Strip]:
        return ground(self, crop)


class PanelColumn(Vertical):
    def render_lines(self, crop: Region) -> list[Strip]:
        return ground(self, crop)


def ground(box: Widget, crop: Region) -> list[Strip]:
    """Blank rows in the widget's background colour."""
    _, background = box.background_colors
    row = Strip.blank(crop.width, Style(bgcolor=background.rich_color))
    for line_filter in box.get_line_filters():  # with NO_COLOR, a filter removes the colour
        row = row.apply_filter(line_filter, background)
    return [row] * crop.height
