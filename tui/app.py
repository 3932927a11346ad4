"""`DashboardApp`: takes events from a source and shows what they say.

Fifteen times a second it drains the source, folds the events into the model, and hands the model to
each panel once. It never asks the engine anything and the engine never waits for it. The easy thing
to get wrong is the end: `show_summary` is called from the engine's thread while the last events are
still in the source, so the summary is only noted there and shown once the source is empty.

    source = InProcessSource(header)
    engine.subscribe(source.put)
    app = DashboardApp(source, "Watch how ...")
    # in another thread: run the engine, then app.show_summary(["12 requests finished.", ...])
    app.run()
"""

from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from minivllm.tui.model import DashboardModel
from minivllm.tui.screens.help import HelpScreen
from minivllm.tui.screens.overview import Overview
from minivllm.tui.source import EventSource
from minivllm.tui.text import plural
from minivllm.tui.theme import DARK, LIGHT, Palette
from minivllm.tui.widgets.header import Header
from minivllm.tui.widgets.sentences import Summary
from minivllm.tui.widgets.slots import Slots

FRAMES_PER_SECOND = 15
SECONDS_PER_POLL = 0.03
"""Most time that new events get between two frames, so that a flood delays the picture and never the keys."""


class DashboardApp(App[None]):
    """The dashboard of one engine."""

    CSS_PATH = "dashboard.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "Pause", id="dashboard.pause"),
        Binding("t", "toggle_theme", "Dark/light", id="dashboard.theme"),
        Binding("question_mark", "help", "Help", id="dashboard.help", key_display="?"),
        Binding("q", "quit", "Quit", id="dashboard.quit"),
        # Textual's own ctrl+c only says which key quits; here it must end the run.
        Binding("ctrl+c", "quit", "Quit", id="dashboard.interrupt", show=False, priority=True),
    ]

    def __init__(self, source: EventSource, watch: str) -> None:
        """`watch`: one sentence that says what to look for in this run."""
        super().__init__()
        # Now and not when mounted: the style sheet uses the themes' own variables.
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name
        self.model = DashboardModel(source.recording.header)
        self._source = source
        self._overview = Overview(watch, source.recording.header.max_num_seqs)
        self._still: DashboardModel | None = None
        self._summary: list[str] | None = None
        self._finished = False

    def show_summary(self, lines: list[str]) -> None:
        """The run is over and this is what came of it; from any thread, never waits."""
        self._summary = list(lines)

    async def on_mount(self) -> None:
        self.theme_changed_signal.subscribe(self, lambda theme: self._restyle(theme.dark))
        await self.push_screen(self._overview)
        self._draw()
        self.set_interval(1 / FRAMES_PER_SECOND, self._frame)

    def _frame(self) -> None:
        count = self._source.poll(SECONDS_PER_POLL)
        recording = self._source.recording
        for event in recording.events(len(recording) - count, len(recording)):
            self.model.apply(event)
        if count:
            self._draw()
        elif self._summary is not None and not self._finished and self._still is None:
            self._finish(self._summary)

    def _draw(self) -> None:
        """Show the model, or the still picture while paused; the badge is always up to date."""
        self._overview.query_one(Header).badge = self._badge()
        with self.batch_update():
            for panel in self._overview.panels():
                panel.show(self._still or self.model)

    def _badge(self) -> tuple[str, str]:
        if self._still is not None:
            behind = self.model.fold.step - self._still.fold.step
            return f" PAUSED, {plural(behind, 'step')} behind ", "warn*!"
        return (" FINISHED ", "good*!") if self._finished else ("● LIVE", "good*")

    def _finish(self, summary: list[str]) -> None:
        self._finished = True
        self._overview.query_one(Summary).tell(summary)
        self._overview.query_one(Summary).display = True
        # When nothing runs any more, the summary takes the place of the empty slots.
        self._overview.query_one(Slots).display = bool(self.model.fold.running)
        self.call_after_refresh(self._draw)

    def _restyle(self, dark: bool) -> None:
        palette = Palette(dark)
        for panel in self._overview.panels():
            panel.restyle(palette)

    def action_pause(self) -> None:
        """Hold the picture still, or let it catch up; folding goes on either way."""
        if self._finished:
            return
        self._still = self.model.still() if self._still is None else None
        self._draw()

    def action_toggle_theme(self) -> None:
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name

    def action_help(self) -> None:
        self.push_screen(HelpScreen([panel for panel in self._overview.panels() if panel.display]))
