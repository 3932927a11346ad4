"""The start of each check of a key: the real app at the end of one step in the middle of a run.

What is true there is computed from the run itself, without the app.
"""

from bisect import bisect_right
from collections.abc import Callable

from textual.pilot import Pilot

from minivllm.events.fold import fold
from minivllm.tui.control import ControlState
from minivllm.tui.draw.selection import Target
from support.tui.driven_app import answer, drawn, panel, press, redraw, settle

MIDDLE = 20  # A check begins at the end of this step.


class FakeControl:
    """An engine control (`minivllm.tui.control.EngineControl`) that only records its calls."""

    def __init__(self, *, pauses_with_picture: bool = False) -> None:
        self.pauses_with_picture = pauses_with_picture
        self.calls: list[tuple] = []
        """Every call with its arguments, oldest first."""
        self.to_say: list[str] = []

    def state(self) -> ControlState:
        paused = [name for name, *_ in self.calls if name in ("pause", "resume")][-1:] == ["pause"]
        return ControlState(paused, "schedule")

    def messages(self) -> list[str]:
        said, self.to_say = self.to_say, []
        return said

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.calls.append((name, *arguments))


class Seat:
    """The app, and facts about the run that are computed without it."""

    def __init__(self, pilot: Pilot, stage, control: FakeControl | None = None) -> None:
        self.pilot, self.app, self.stage, self.control = pilot, pilot.app, stage, control
        self.transport = self.app.context.transport
        self.steps = [event.step for event in stage.events]

    @property
    def running(self) -> str:
        return self.app.model.fold.running[0]

    async def sit_down(self) -> None:
        """Return to the start of a check."""
        app = self.app
        while len(app.screen_stack) > 1:
            app.pop_screen()
        await settle(self.pilot)
        await app.look_keys.go("overview")
        app.clear_notifications()
        app.look_keys.visited.clear()
        app.context.selection.clear()
        app.context.event_filter = ""
        self.transport.speed = 1.0
        if app.screen.maximized is not None:
            app.screen.minimize()
        app.set_focus(panel(app, "slots"))
        if self.control is not None:
            self.control.calls.clear()
        await self.stand_at(self.end_of(MIDDLE))

    async def stand_at(self, position: int) -> None:
        self.transport.to_position(position)
        await redraw(self.pilot)

    async def press(self, *keys: str) -> None:
        await press(self.pilot, *keys)

    async def answer(self, text: str) -> None:
        await answer(self.pilot, text)

    async def choose(self, target: Target) -> None:
        self.app.context.selection.choose(target)
        await redraw(self.pilot)

    def end_of(self, step: int) -> int:
        """The number of events up to the end of a step."""
        return bisect_right(self.steps, step)

    def stands_at(self, position: int, state: str = "paused") -> None:
        """Check that the picture is the fold of this many events, and says so."""
        assert (self.transport.position, self.transport.state) == (position, state)
        truth = fold(self.stage.header, self.stage.events[:position])
        assert self.app.model.fold.state == truth.state
        top = drawn(self.app, "header")[0]
        engine_runs = self.control is None or not self.control.state().paused
        paused = "engine is idle" if engine_runs else "PAUSED"
        assert f"step {truth.step:,}" in top and {"paused": paused, "live": "LIVE"}[state] in top
        number = f"{position - 1:,}".replace("-1", "–")
        assert f"event {number}/{len(self.steps) - 1:,}" in drawn(self.app, "timeline")[0]

    def window_text(self) -> str:
        """All text of the front window, also below the visible part."""
        texts = self.app.screen.query("Static")
        rows = [row.text.rstrip() for text in texts for row in text.render_lines(text.size.region)]
        return "\n".join(rows)
