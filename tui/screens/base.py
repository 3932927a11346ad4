"""The base class of all screens: tabs, top line, timeline and key bar, with panels in between."""

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from textual._compositor import Compositor
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.theme import Theme
from textual.widget import Widget

from minivllm.tui.context import Context
from minivllm.tui.draw.selection import Target, TargetKind
from minivllm.tui.draw.theme import Palette
from minivllm.tui.widgets.frame.header import Header
from minivllm.tui.widgets.frame.keybar import ROWS_FOR_TABS, KeyBar, ScreenTabs
from minivllm.tui.widgets.frame.narrator import Narrator
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.frame.sentences import Notice
from minivllm.tui.widgets.frame.timeline import TimeLine


class _Compositor(Compositor):
    """Keeps the last layout: Textual may compute the next too early, and then miss what it moves."""

    full_map = property(lambda self: self._full_map)


class DashboardScreen(Screen, inherit_bindings=False):
    NAME: ClassVar[str]
    KIND: ClassVar[TargetKind | None] = None
    """Of the items that this screen is about."""
    IS_NARRATED: ClassVar[bool] = True
    # Visible beside a maximized panel: the position in time, and the key that restores the screen.
    ALLOW_IN_MAXIMIZED_VIEW = "#top, #narrator, #foot"
    AUTO_FOCUS = ""  # no focus at first, so that no title is highlighted
    # Under 110 columns, panels have no boxes; on taller screens, each panel has more room.
    HORIZONTAL_BREAKPOINTS: ClassVar = [(0, "-narrow"), (110, "-wide")]
    VERTICAL_BREAKPOINTS: ClassVar = [(0, "-low"), (ROWS_FOR_TABS, "-medium"), (48, "-tall")]

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context, self._compositor = context, _Compositor()
        self.narrator, self.keybar = Narrator(id="narrator"), KeyBar(id="keybar")
        self.notice = Notice(id="notice").add_class("-away")
        self.has_panels = False
        self.panels: list[Panel] = []
        self._bound: dict[str, Binding] = {}

    def body(self) -> Iterable[Widget]:
        raise NotImplementedError

    def row(self) -> Target | None:
        """The item that this screen shows selected, even if another kind was selected since."""
        return None if self.KIND is None else self.context.selection.held(self.KIND)

    def asked(self) -> Target | None:
        """What `w` explains: the last selection if the focused panel shows it, or else `row`."""
        last, focused = self.context.selection.last, self.focused
        is_shown = isinstance(focused, Panel) and last in focused.targets()
        return last if is_shown and last.kind != "event" else self.row() or last

    def scroll_by(self, by: int) -> bool:
        """Scroll what has too few rows: here, by page, an answer. False if all of it is shown."""
        return abs(by) > 1 and self.app.has_answer and self.notice.scroll_rows(by)

    def compose(self) -> ComposeResult:
        self._fit_terminal()
        self.has_two_memories = self.context.transport.view.header.num_cpu_blocks > 0
        self.set_class(self.has_two_memories, "-tiered")
        with Horizontal(id="top"):
            yield ScreenTabs(id="tabs")
            yield Header(id="header")
        if self.IS_NARRATED or self.context.tour is not None:
            yield self.narrator
        yield from self.body()
        with Vertical(id="foot"):
            yield self.notice
            yield TimeLine(id="timeline")
            yield self.keybar

    def _fit_terminal(self) -> None:
        """Set the breakpoints' classes before the first layout.

        Textual sets them only after it: the first picture of a screen would be that of another
        size, and a click in it would hit what is there a moment later.
        """
        breakpoints = self.HORIZONTAL_BREAKPOINTS, self.VERTICAL_BREAKPOINTS
        for size, steps in zip(self.app.size, breakpoints, strict=True):
            self.add_class(max(step for step in steps if step[0] <= size)[1])

    def on_mount(self) -> None:
        # Query only once: a query in each frame took longer than drawing a panel.
        self.panels = list(self.query(Panel))
        for panel in self.panels:
            panel.context = self.context
        self._restyle(self.app.current_theme)
        self.app.theme_changed_signal.subscribe(self, self._restyle)
        self.bindings_updated_signal.subscribe(self, self._forget_keys)
        self.has_panels = True
        self.draw()  # so that each panel has something to draw as soon as it has a size

    def _restyle(self, theme: Theme) -> None:
        """Apply a theme, even while another screen is in front."""
        palette = Palette(theme.dark)
        for panel in self.panels:
            panel.restyle(palette)

    def _forget_keys(self, _: Screen) -> None:
        self._bound = {}
        self.keybar.show_again()

    @property
    def bound(self) -> dict[str, Binding]:
        """Command id, or without one its action -> the first of its keys, also the user's own."""
        if not self._bound:  # finding them takes a good part of a frame's time
            for _, key, *_ in self.active_bindings.values():
                printed = replace(key, key_display=self.app.get_key_display(key))
                self._bound.setdefault(key.id or key.action, printed)
        return self._bound

    def draw(self) -> None:
        for panel in self.panels:
            panel.show(self.context.transport.view)
