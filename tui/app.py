"""`DashboardApp`: takes events from a source and draws the engine's state.

Ten times a second, the app reads new events and draws the current moment of the recording; where
drawing is slow, it leaves out frames. The engine never waits for the dashboard. The keys call methods of the app's parts (`keys/commands.py`).

    source = InProcessSource(header)
    engine.subscribe(source.put)
    app = DashboardApp(source, watch="How ...")
    # in another thread: run the engine, then app.show_summary(["12 requests finished.", ...])
    app.run()
"""

import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from math import inf
from typing import ClassVar

from textual.binding import BindingType

from minivllm.errors import EventLogError
from minivllm.events.recording.log import LogWriter
from minivllm.text import clean
from minivllm.tui.context import Context, Figure, RunSummary
from minivllm.tui.control import EngineControl, Entry
from minivllm.tui.dashboard import Dashboard
from minivllm.tui.draw.selection import Target
from minivllm.tui.draw.theme import DARK, LIGHT, themes_for
from minivllm.tui.keys.commands import COMMANDS, as_bindings, run_command
from minivllm.tui.keys.engine_keys import EngineKeys
from minivllm.tui.keys.look_keys import CommandList, LookKeys
from minivllm.tui.keys.race_keys import RaceKeys
from minivllm.tui.keys.signals import leave_on_signals
from minivllm.tui.keys.time_keys import TimeKeys
from minivllm.tui.lesson import LessonControl
from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.sources.source import EventSource
from minivllm.tui.start import Start
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.state.narration import SECONDS_TO_WATCH, Narration
from minivllm.tui.time.transport import State, Transport
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.frame.timeline import TimeLine

FRAMES_PER_SECOND = 10
SECONDS_OF_EVENTS = 0.04
"""Seconds per frame for new events: under a flood of events the picture lags, but keys work."""
MOST_OF_A_CORE = 0.08
"""For drawing. The engine may need every core."""

SCREENS = ("overview", "blocks", "scheduler", "requests", "events", "compare", "choice")
"""Names of the screens and of their modules in `screens`, in the order of the keys 1 to 7."""
DURING_START = frozenset(
    {"app.theme", "app.screenshot", "app.palette", "app.help", "app.quit", "app.interrupt",
     "look.back"}
)  # fmt: skip
"""Commands that need neither an engine nor a recording."""


class DashboardApp(Dashboard):
    CSS_PATH = "dashboard.tcss"
    BINDINGS: ClassVar[list[BindingType]] = as_bindings(COMMANDS)
    TITLE = "minivllm"
    COMMANDS: ClassVar = {CommandList}
    # Disable Textual's own ctrl+p: it would work even in windows, and after a user remaps the key.
    ENABLE_COMMAND_PALETTE = False
    allowance = _credit = MOST_OF_A_CORE / FRAMES_PER_SECOND
    """Seconds for drawing that each frame adds, and those that are left."""
    _is_stale, _read_at = False, inf

    def __init__(
        self,
        source: EventSource[DashboardModel],
        *,
        watch: str = "",
        control: EngineControl | None = None,
        other: EventSource[DashboardModel] | None = None,
        state: State = "live",
        ascii: bool = False,
        keymap: dict[str, str] | None = None,
        first_step: int = 0,
        follows: bool = False,
        notice: str = "",
        lesson: LessonControl | None = None,
        recorder: LogWriter | None = None,
        screen: str = "overview",
        suggests: bool = False,
        race: Entry | None = None,
        start: Start | None = None,
    ) -> None:
        """watch: one sentence that says what to look for in this run
        other: a second recording, for the Compare screen
        state: "live" begins at the newest event, "playing" and "paused" at the first
        keymap: the user's keys by command id; they replace the keys in `commands`
        first_step: a recording opens at the end of this step, once the step has been read
        follows: when a new engine replaces this one, `run` returns "next": the caller reopens
        notice: a notification to begin with
        lesson: adds the lesson screen and opens it first; `source` must be its first page's source
        recorder: writes this run into a file; the top line reports gaps in the file
        suggests: until the first request arrives, suggest what to try
        race: start with a race of these configurations; `source` must be complete
        start: builds the engine after the first frame; until then, `source` has no events
        """
        super().__init__()
        # Before mounting, because the style sheet uses variables that the themes define.
        for theme in themes_for(ascii=ascii):
            self.register_theme(theme)
        self.theme = DARK.name
        self.set_keymap(keymap or {})
        second = None if other is None else Transport(other, "paused")
        self.context = Context(Transport(source, state), control, second, recorder, lesson)
        self.context.ascii, self.context.watch, self.context.suggests = ascii, watch, suggests
        self.context.start = start
        self.context.narration = Narration(SECONDS_TO_WATCH if watch else 0.0)
        self.context.still = self.no_color or self.animation_level == "none"

        self.time_keys = TimeKeys(self)
        self.race_keys = RaceKeys(self)
        self.engine_keys = EngineKeys(self, self.time_keys)
        self.look_keys = LookKeys(self, self.engine_keys, self.race_keys)
        self._notices = _Notices(self.context, self.report)

        self._first_screen = screen
        for name in (*SCREENS, "start", "lesson"):
            self.add_mode(name, partial(self._make_screen, name))
        self._race = race
        self._summary: RunSummary | None = None
        self._first_step = first_step
        self._follows, self._notice = follows, notice
        self._badge_seen: tuple | None = None

    def _make_screen(self, name: str) -> DashboardScreen:
        # Import late, so that the first frame does not wait for the other screens.
        module = import_module(f"minivllm.tui.screens.{name}")
        return getattr(module, f"{name.capitalize()}Screen")(self.context)

    def show_summary(
        self, lines: list[str], step: int | None = None, figures: tuple[Figure, ...] = ()
    ) -> None:
        """Show the results of a finished run. Any thread may call this method; it never waits.

        step: the run's last step. The summary then disappears when the engine gets more work;
        without a step, the summary stays.
        """
        self._summary = RunSummary(list(lines), step, figures)

    # ---- frames ----

    async def on_mount(self) -> None:
        leave_on_signals(self)
        if self.context.start is None:
            await self._open()
            return
        await self.switch_mode("start")
        self.draw()
        self._timer = self.set_interval(1 / FRAMES_PER_SECOND, self._follow_start)
        self.call_after_refresh(self.context.start.begin)

    def _follow_start(self) -> None:
        if not self.context.start.started.done():
            self.draw()
            return
        # Not in the timer's task, which ends here.
        self.call_later(self._end_of_start)
        self._timer.stop()

    async def _end_of_start(self) -> None:
        context, started = self.context, self.context.start.started
        if started.exception() is not None:
            self.exit()  # the caller raises the error
            return
        context.transport.source.close()
        self.close_sentences()  # such as: the model is still loading
        source, context.control, context.recorder, context.lesson, context.tour = started.result()
        context.transport, context.start = Transport(source), None
        await self._open()

    async def _open(self) -> None:
        """Open the first screen. From now on, there is an engine or a recording to draw."""
        self.close_sentences()  # that the model is loading
        if self.context.lesson is not None:
            self._first_screen = "lesson"
            self.bind("0", "screen('lesson')", description="Lesson", show=False)
        await self.switch_mode(self._first_screen)
        self.draw()
        if self._notice:
            self.report(self._notice)
        if self._race is not None:
            await self.race_keys.start(self._race)
        self.set_interval(1 / FRAMES_PER_SECOND, self._frame)

    def on_unmount(self) -> None:
        self.race_keys.close()
        self.context.transport.source.close()
        if self.context.second is not None:
            self.context.second.source.close()

    def _frame(self) -> None:
        now, drawn = time.monotonic(), time.thread_time() - self._read_at
        credit = min(self._credit + self.allowance - drawn, self.allowance)
        self._credit = max(credit, -0.04)  # after a new screen's slow first drawing, go on soon
        changed = self.race_keys.tick() | self.engine_keys.select_asked()
        changed |= self.context.own.tick(now, SECONDS_OF_EVENTS)
        summary = self._summary
        holds = summary is not None and summary.holds(self.context.own.recording.head)
        changed |= self._end_stop() | self._begin_stop(holds)
        if self.context.behind is not None:
            changed |= self.context.transport.tick(now, SECONDS_OF_EVENTS)
        changed |= bool(self._first_step) and self._go_to_first_step()
        if self.context.second is not None:
            changed |= self.context.second.tick(now, SECONDS_OF_EVENTS)
        self.time_keys.tick()
        if changed and self.has_answer and self.context.engine_stands:
            self.look_keys.answer(again=True)  # the user runs it step by step
        is_live = self.context.own.state == "live"
        if self._follows and is_live and self.context.own.source.status.replaced:
            self.exit("next")  # a recording has only one engine: the new one needs a new recording
            return
        self._notices.look()
        if self.context.finished is not None and not holds:
            self.context.finished, changed = None, True
        self._is_stale |= self._badge_may_change() | changed
        self._read_at = time.thread_time()
        if self._credit < 0:
            return
        if self._is_stale:
            self._is_stale = False
            self.draw()
        elif holds and self.context.finished is not summary and is_live:
            self.context.finished = summary
            if self.current_mode != "overview":
                self.report("The run is over: press 1 to see its results.")
            self.draw()

    def _begin_stop(self, at_end: bool) -> bool:
        """Pause for the next stop of a tour if its moment has come."""
        own, tour = self.context.own, self.context.tour
        found = tour is not None and own.state == "live" and tour.begin(own.recording.head, at_end)
        if isinstance(found, Target):
            self.context.selection.clear()  # w explains this, and not the block of an earlier stop
            self.engine_keys.select(found)
        if found:
            own.pause()
        return bool(found)

    def _end_stop(self) -> bool:
        """Let the run go on after a stop whose key was pressed, once its window has closed."""
        tour, race = self.context.tour, self.context.race
        if tour is None or not tour.is_open:
            return False
        # Whichever key has let the run go on, the stop is passed.
        if self.context.own.state != "live" or self.context.control.state().paused:
            is_window = self.has_sentences or self.screen is not self.dashboard_screen
            if not tour.is_answered or (tour.stop.then and is_window):
                return False
            # A race stays until its verdict, unless the user leaves its screen.
            is_watched = self.context.behind is not None and not self.context.transport.at_end
            is_racing = race is None or race.state == "running" or is_watched
            if tour.stop.command == "race.start" and is_racing:
                tour.is_answered = race is not None  # the window was left: R opens it again
                return race is None
        tour.end()
        if not tour.is_over:  # the last stop leaves its picture
            self.time_keys.go_on()
        return True

    def _go_to_first_step(self) -> bool:
        """Go to `first_step`, or to the end of a shorter recording; False until it is read."""
        transport = self.context.transport
        is_read = transport.source.status.state != "indexing"
        if transport.recording.last_step <= self._first_step and not is_read:
            return False
        transport.to_step(self._first_step)
        self._first_step = 0
        return True

    def _handle_exception(self, error: Exception) -> None:
        """Exit with a message if the recording is unreadable; leave other errors to Textual.

        Overrides a private method, the only one that sees the errors of frames, keys and resizes.
        """
        if isinstance(error, EventLogError):
            self.exit(return_code=1, message=str(error))
        else:
            super()._handle_exception(error)

    def _badge_may_change(self) -> bool:
        """Whether badge, keys or notice may change without a new event, such as after a pause."""
        control, transport = self.context.control, self.context.transport
        badge = int(transport.quiet_seconds) if control is None else control.state()
        loss = None if self.context.recorder is None else self.context.recorder.loss
        status = transport.source.status
        told = tuple(told.identity for told in self._notifications)
        seen = status, transport.state, transport.quiet_seconds >= 1, badge, loss, told
        changed = seen != self._badge_seen
        self._badge_seen = seen
        return changed

    # ---- user actions ----

    async def action_command(self, command_id: str) -> None:
        """Run a row of the command table: from a key, the footer or the palette."""
        if self.context.start is not None and command_id not in DURING_START:
            self.tell("The model is still loading.")
        else:
            await run_command(COMMANDS, command_id, self)
            if self.context.tour is not None:
                self.context.tour.answer(command_id)
                self.draw()

    async def action_screen(self, name: str) -> None:
        """Go to a screen: from its tab, or from the lesson screen's key, which has no command."""
        if self.context.start is None:
            await self.look_keys.screen(name)

    async def on_panel_chosen(self, message: Panel.Chosen) -> None:
        self.engine_keys.select(message.target)
        self.draw()
        if self.has_answer:
            self.look_keys.answer()
        if message.opened:
            await self.look_keys.open()

    def on_time_line_moved(self, message: TimeLine.Moved) -> None:
        self.time_keys.slide(message.part)

    def toggle_theme(self) -> None:
        self.theme = LIGHT.name if self.theme == DARK.name else DARK.name


class _Notices:
    """Notifications that the dashboard shows on its own, each one once: what panels have no room for."""

    def __init__(self, context: Context, tell: Callable[[str], None]) -> None:
        self._context = context
        self._tell = tell
        self._trouble: str | None = None
        self._reported_loss = False

    def look(self) -> None:
        control = self._context.control
        if control is not None and (refused := control.messages()):
            self._tell(" ".join(refused))
        status, recorder = self._context.own.source.status, self._context.recorder
        # A lost, ended or damaged source is reported in full: the top line has too little room.
        if status.state != self._trouble and status.text and status.state != "indexing":
            # The user is looking at the old engine's past, so do not jump to the new engine.
            new = "The server runs another engine now; press end to follow it."
            self._tell(new if status.replaced else clean(status.text))
        self._trouble = status.state if status.text else None
        if recorder is not None and recorder.loss is not None and not self._reported_loss:
            self._reported_loss = True
            self._tell(
                f"The recording is complete only up to step {recorder.last_step:,}:"
                f" {recorder.loss.reason}."
            )
