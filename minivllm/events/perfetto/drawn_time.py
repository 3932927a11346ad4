"""Decides when steps and events are drawn, in whole microseconds since the recording began.

With a real clock, steps and events are drawn when they happened. On the virtual clock, a step takes
no time: it is drawn as one millisecond in four quarters, and only the order has a meaning.

Drawn time never goes back, and a step ends at least one microsecond after its last event. So steps
never overlap, even after rounding.
"""

from typing import NamedTuple, Protocol

from minivllm.events import types as ev

STEP_US = 1000
"""Drawn length of a step on the virtual clock, in microseconds."""
_QUARTER = STEP_US // 4
PHASES = ("schedule", "prepare", "model", "sample")


class DrawnPhase(NamedTuple):
    """Where a phase of a step is drawn; both ends in microseconds."""

    name: str
    start: int
    end: int


class DrawnTime(Protocol):
    """The drawn times of a recording; call the methods in the order of its events."""

    note: str
    """An explanation for readers of the trace."""
    now: int
    """The last drawn time."""

    def begin_step(self, event: ev.StepBegin) -> int: ...

    def moment(self, event: ev.Event) -> int:
        """Return when to draw `event`, which happens within a step or between two steps."""

    def end_step(self, event: ev.StepEnd) -> list[DrawnPhase]:
        """Return the phases of the step that ends. Set `now` to the end of the step."""

    def cut_step(self) -> None:
        """End a step that has no end event. Set `now` to the end of the step."""


def drawn_time(header: ev.LogHeader) -> DrawnTime:
    return VirtualTime() if header.clock == "virtual" else RealTime(header.mono)


class RealTime:
    """Draws each event at its time on the engine's clock.

    For the phases of a step, only the lengths are known.
    """

    note = "Microseconds of the engine's clock since the recording began."

    def __init__(self, zero: float) -> None:
        self._zero = zero
        self.now = 0
        self._begin = 0

    def begin_step(self, event: ev.StepBegin) -> int:
        self._begin = self.moment(event)
        return self._begin

    def moment(self, event: ev.Event) -> int:
        self.now = max(self.now, _microseconds(event.t - self._zero))
        return self.now

    def end_step(self, event: ev.StepEnd) -> list[DrawnPhase]:
        begin, last_moment = self._begin, self.now
        end = max(self.moment(event), last_moment + 1)
        self.now = end
        # Planning is at the start of the step; the other phases are at its end, without gaps. The
        # time in between was spent on the engine's checks, or on pauses in a step that runs phase
        # by phase.
        edge = min(begin + _microseconds(event.t_schedule), end)
        phases = [DrawnPhase("schedule", begin, edge)]
        rest = event.t_prepare + event.t_model + event.t_sample
        for name, length in zip(
            PHASES[1:], (event.t_prepare, event.t_model, event.t_sample), strict=True
        ):
            start = max(end - _microseconds(rest), edge)
            rest -= length
            edge = max(end - _microseconds(rest), edge)
            phases.append(DrawnPhase(name, start, edge))
        return [phase for phase in phases if phase.end > phase.start]

    def cut_step(self) -> None:
        self.now += 1


class VirtualTime:
    """Draws each step as one millisecond, and its events one microsecond apart.

    Events of `_AFTER_THE_PLAN`, and blocks released after the plan, are in the step's last quarter;
    all other events are in its first quarter.
    """

    note = (
        "The engine ran on the virtual clock, where a step takes no time: each step is drawn as 1"
        " ms and each of its four phases as a quarter of that. Only the order of events is"
        " meaningful."
    )
    _AFTER_THE_PLAN = (
        ev.AttentionMass,
        ev.TokenAttention,
        ev.TokenExplained,
        ev.DraftVerified,
        ev.TokenSampled,
        ev.TextFlushed,
        ev.BeamsFound,
        ev.RequestFinished,
    )

    def __init__(self) -> None:
        self.now = 0
        self._begin: int | None = None
        self._last = 0
        self._num_scheduled = 0

    def begin_step(self, event: ev.StepBegin) -> int:
        self._begin = self.now = max(self.now, (event.step - 1) * STEP_US)
        self._last = self._begin + _QUARTER - 1
        self._num_scheduled = 0
        return self._begin

    def moment(self, event: ev.Event) -> int:
        if self._begin is None:
            return self.now
        self._num_scheduled += isinstance(event, ev.StepScheduled)
        # A preemption releases blocks before `step.scheduled` events. A later release belongs to
        # the sample phase.
        gives_back = isinstance(event, ev.BlockReleased) and self._num_scheduled
        if isinstance(event, self._AFTER_THE_PLAN) or gives_back:
            self._last = self._begin + STEP_US - 1
            self.now = max(self.now, self._begin + STEP_US - _QUARTER)
        self.now = min(self.now + 1, self._last)
        return self.now

    def end_step(self, event: ev.StepEnd) -> list[DrawnPhase]:
        if self._begin is None:
            return []
        starts = range(self._begin, self._begin + STEP_US, _QUARTER)
        self.cut_step()
        return [
            DrawnPhase(name, start, start + _QUARTER)
            for name, start in zip(PHASES, starts, strict=True)
        ]

    def cut_step(self) -> None:
        if self._begin is not None:
            self.now = self._begin + STEP_US
            self._begin = None


def _microseconds(seconds: float) -> int:
    return max(0, round(seconds * 1e6))
