"""The start of each key check: the real app at the end of one step in the middle of a run.

What is true there is computed from the run itself, without the app.
"""

from bisect import bisect_right
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from textual.pilot import Pilot
from textual.widgets import Input

from minivllm.events.fold import fold
from minivllm.events.recording.event_index import NOTABLE_KINDS
from minivllm.tui.app import DashboardApp
from minivllm.tui.control import ControlState
from minivllm.tui.draw.selection import Target
from minivllm.tui.screens.dialogs import AskScreen
from support.tui.driven_app import drawn, panel, settle

MIDDLE = 20
"""A check begins at the end of this step."""


class FakeControl:
    """An engine control (`minivllm.tui.control.EngineControl`) that only records its calls."""

    def __init__(self) -> None:
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


@dataclass
class Seat:
    """The app, and facts about the run that are computed without it."""

    pilot: Pilot
    stage: object
    control: FakeControl | None = None
    steps: list[int] = field(default_factory=list)
    """One per event."""

    def __post_init__(self) -> None:
        self.steps = [one.step for one in self.stage.events]

    @property
    def app(self) -> DashboardApp:
        return self.pilot.app

    @property
    def transport(self):
        return self.app.context.transport

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
        self.transport.marks.clear()
        self.transport.speed = 1.0
        if app.screen.maximized is not None:
            app.screen.minimize()
        app.set_focus(panel(app, "slots"))
        if self.control is not None:
            self.control.calls.clear()
        await self.stand_at(self.end_of(MIDDLE))

    async def stand_at(self, position: int) -> None:
        self.transport.to_position(position)
        self.app.draw()
        await settle(self.pilot)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await settle(self.pilot)

    async def answer(self, text: str) -> None:
        """Type into the open window and press enter."""
        assert isinstance(self.app.screen, AskScreen)
        self.app.screen.query_one(Input).value = text
        await self.press("enter")

    async def choose(self, target: Target) -> None:
        self.app.context.selection.choose(target)
        self.app.draw()
        await settle(self.pilot)

    def end_of(self, step: int) -> int:
        """The number of events up to the end of a step."""
        return bisect_right(self.steps, step)

    def stops(self, before: bool = False) -> list[int]:
        """Positions just after notable events, after the seat's own place or `before` it.

        Of neighbours of one kind in one step, only the first counts.
        """
        found, last, here = [], None, self.end_of(MIDDLE)
        for number, one in enumerate(self.stage.events, start=1):
            if type(one) in NOTABLE_KINDS:
                if last != (one.step, type(one)):
                    found.append(number)
                last = one.step, type(one)
        return [stop for stop in found if stop < here] if before else [s for s in found if s > here]

    def stands_at(self, position: int, state: str = "paused") -> None:
        """Check that the picture is the fold of this many events, and says so."""
        assert (self.transport.position, self.transport.state) == (position, state)
        truth = fold(self.stage.header, self.stage.events[:position])
        assert self.app.model.fold.state == truth.state
        assert f"step {truth.step:,}" in drawn(self.app, "header")[0]
        assert f"event {position:,}/{len(self.steps):,}" in drawn(self.app, "timeline")[0]
        badge = {"paused": "PAUSED", "live": "LIVE"}[state]
        assert badge in drawn(self.app, "header")[0]

    def window_text(self) -> str:
        """All text of the front window, also below the visible part."""
        texts = self.app.screen.query("Static")
        rows = [row.text.rstrip() for one in texts for row in one.render_lines(one.size.region)]
        return "\n".join(rows)


Check = Callable[[Seat, str], Awaitable[None]]


CHECKS: dict[str, Check] = {}
"""By the command's id."""


def of(command_id: str) -> Callable[[Check], Check]:
    def note(check: Check) -> Check:
        CHECKS[command_id] = check
        return check

    return note
