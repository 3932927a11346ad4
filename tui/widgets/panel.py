"""`Panel`: paints lines, and of them only those that changed.

A panel says *what* to show in `lines`, a plain function of the model and the room there is; this
class does the rest: it compares the rows with those on the screen and has Textual repaint the rows
that differ. One widget a panel, not one a cell: a map of a thousand blocks as a thousand widgets
takes two thirds of a processor core, as lines it takes a twentieth.
"""

from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.events import Resize
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from minivllm.tui.lines import Line
from minivllm.tui.model import DashboardModel
from minivllm.tui.theme import Palette


class Panel(Widget, can_focus=False):
    """One part of the dashboard."""

    HELP_TITLE: ClassVar[str] = ""
    """What `?` calls it."""
    HELP_TEXT: ClassVar[str] = ""
    """Two sentences on what it shows, for `?`."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._model: DashboardModel | None = None
        self._lines: list[Line] = []
        self._strips: dict[int, Strip] = {}
        self._palette = Palette(dark=True)
        self._styles: dict[str, Style] = {}

    def title(self, model: DashboardModel, width: int) -> str:
        """The words in the top border; ours alone, nothing from outside (Textual reads it as markup)."""
        return self.HELP_TITLE

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        """At most `height` lines of at most `width` cells."""
        raise NotImplementedError

    def show(self, model: DashboardModel) -> None:
        """Bring the panel up to date with `model`."""
        self._model = model
        if not self.display or not self.is_attached:
            return
        width, height = self.content_size
        if width <= 0 or height <= 0:
            return
        title = self.title(model, width)
        if not self.styles.border_left[0]:
            title = f" {title} "  # a rule without corners comes right up to the words
        if title != self.border_title:
            self.border_title = title
        new, old = self.lines(model, width, height), self._lines
        self._lines = new
        changed = [y for y in range(max(len(new), len(old))) if new[y : y + 1] != old[y : y + 1]]
        for y in changed:
            self._strips.pop(y, None)
        if changed:
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def restyle(self, palette: Palette) -> None:
        """Paint everything again in other colours."""
        self._palette = palette
        self.notify_style_update()
        self.refresh()

    def notify_style_update(self) -> None:
        """Textual calls this when the style sheet gives the panel other colours."""
        super().notify_style_update()
        self._styles.clear()
        self._strips.clear()

    def on_resize(self, event: Resize) -> None:
        self._strips.clear()
        if self._model is not None:
            self.show(self._model)

    def render_line(self, y: int) -> Strip:
        strip = self._strips.get(y)
        if strip is None:
            strip = self._strips[y] = self._paint(self._lines[y] if y < len(self._lines) else ())
        return strip

    def _paint(self, line: Line) -> Strip:
        width = self.content_size.width
        segments = [Segment(text, self._style(name)) for text, name in line]
        room = width - sum(cell_len(text) for text, _ in line)
        if room < 0:
            return Strip(segments).crop(0, width)
        segments.append(Segment(" " * room, self._style("text")))
        return Strip(segments, width)

    def _style(self, name: str) -> Style:
        """The palette's style on the panel's own background."""
        style = self._styles.get(name)
        if style is None:
            style = self._styles[name] = self.rich_style + self._palette.style(name)
        return style
