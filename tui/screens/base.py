"""What all screens have in common: the top line, the place in time, the keys; between them the
screen's own panels.
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.events import Resize
from textual.screen import Screen
from textual.theme import Theme
from textual.widget import Widget
from textual.widgets import Static

from minivllm.tui.context import Context
from minivllm.tui.draw.theme import Palette
from minivllm.tui.widgets.frame.header import Header
from minivllm.tui.widgets.frame.keybar import KeyBar
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.frame.timeline import TimeLine

SMALLEST = (40, 12)
"""Columns and rows below which there is nothing to read."""


class DashboardScreen(Screen, inherit_bindings=False):
    """One of the screens behind the keys 1 to 6."""

    NAME: ClassVar[str]
    # A panel that fills the screen leaves what says where in time this is, and how to get back.
    ALLOW_IN_MAXIMIZED_VIEW = "#header, #timeline, KeyBar"
    AUTO_FOCUS = ""  # the first tab gives it to the first panel, and until then no title stands out
    # Under 110 columns the panels drop their boxes; tall and wide screens give each panel more.
    HORIZONTAL_BREAKPOINTS: ClassVar = [(0, "-narrow"), (110, "-wide")]
    VERTICAL_BREAKPOINTS: ClassVar = [(0, "-low"), (32, "-medium"), (48, "-tall")]

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self.has_panels = False
        self._panels: list[Panel] = []

    def body(self) -> Iterable[Widget]:
        """The screen's panels, in their containers."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        yield Header(id="header")
        yield from self.body()
        yield TimeLine(id="timeline")
        yield KeyBar()
        yield Static(id="too-small")

    def on_mount(self) -> None:
        # They stay the same, and a search at each frame took longer than drawing one of them.
        self._panels = list(self.query(Panel))
        for panel in self.panels():
            panel.context = self.context
        self._restyle(self.app.current_theme)
        self.app.theme_changed_signal.subscribe(self, self._restyle)
        self.has_panels = True

    def _restyle(self, theme: Theme) -> None:
        """Paint in the colours of a theme, also while another screen is in front."""
        palette = Palette(theme.dark)
        for panel in self.panels():
            panel.restyle(palette)

    def on_resize(self, event: Resize) -> None:
        """Say so where there is too little room for anything."""
        columns, rows = event.size
        self.set_class(columns < SMALLEST[0] or rows < SMALLEST[1], "-tiny")
        self.query_one("#too-small", Static).update(
            f"The dashboard needs {SMALLEST[0]} columns and {SMALLEST[1]} rows; this terminal has"
            f" {columns} and {rows}."
        )

    def panels(self) -> Iterator[Panel]:
        """Every panel, from the top of the screen to its bottom."""
        yield from self._panels

    def draw(self) -> None:
        """Bring every panel up to date with the moment on the screen."""
        for panel in self.panels():
            panel.show(self.context.transport.view)
