"""Where in a picture of time a step and its events are drawn, in whole microseconds from the
recording's begin.

With a real clock, where they were. On the virtual clock time stands still during a step, so all of
it would be one point: there each step is drawn as one millisecond, in quarters, and only the order
of things means anything.

The easy thing to get wrong is the edges. Steps must not overlap, phases must lie in their step, and
every event of a step strictly before its end, however the clock's figures were rounded: so time
here only goes forward, and a step lasts at least until just after its last event.
"""

from typing import NamedTuple, Protocol

from minivllm.events import types as ev

STEP_US = 1000
"""A step on the virtual clock."""
_QUARTER = STEP_US // 4
PHASES = ("schedule", "prepare", "model", "sample")


class Interval(NamedTuple):
    """From `start` to `end`, both in microseconds."""

    name: str
    start: int
    end: int


class DrawnTime(Protocol):
    """The moments of a recording, asked for in its order."""

    note: str
    """What a reader of the picture must know."""
    now: int
    """The last moment that was asked for."""

    def begin_step(self, event: ev.StepBegin) -> int: ...

    def moment(self, event: ev.Event) -> int:
        """When `event` happened, in a step or between two."""

    def end_step(self, event: ev.StepEnd) -> list[Interval]:
        """The phases of the step that ends. `now` is its end."""

    def cut_step(self) -> None:
        """The end of the step that is under way was never told. `now` is where it is drawn."""


def drawn_time(header: ev.LogHeader) -> DrawnTime:
    return VirtualTime() if header.clock == "virtual" else RealTime(header.mono)


class RealTime:
    """Everything where the clock saw it. The parts of a step are known by their lengths alone."""

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

    def end_step(self, event: ev.StepEnd) -> list[Interval]:
        begin, last_moment = self._begin, self.now
        end = max(self.moment(event), last_moment + 1)
        self.now = end
        # Planning comes first; the others follow each other up to the end. Between the two lie the
        # engine's checks.
        edge = min(begin + _microseconds(event.t_schedule), end)
        phases = [Interval("schedule", begin, edge)]
        rest = event.t_prepare + event.t_model + event.t_sample
        for name, length in zip(
            PHASES[1:], (event.t_prepare, event.t_model, event.t_sample), strict=True
        ):
            start = max(end - _microseconds(rest), edge)
            rest -= length
            edge = max(end - _microseconds(rest), edge)
            phases.append(Interval(name, start, edge))
        return [phase for phase in phases if phase.end > phase.start]

    def cut_step(self) -> None:
        self.now += 1


class VirtualTime:
    """One millisecond a step. Events of the plan stand in its first quarter, one microsecond apart,
    those after it in the last.
    """

    note = (
        "The engine ran on the virtual clock, on which a step takes no time: each step is drawn as"
        " 1 ms, each of its four phases as a quarter of that. Only the order means anything."
    )
    _AFTER_THE_PLAN = (
        ev.AttentionMass,
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
        # A dead beam's blocks are the first that is told after the plan; a victim's come before who
        # takes them is scheduled.
        gives_back = isinstance(event, ev.BlockReleased) and self._num_scheduled
        if isinstance(event, self._AFTER_THE_PLAN) or gives_back:
            self._last = self._begin + STEP_US - 1
            self.now = max(self.now, self._begin + STEP_US - _QUARTER)
        self.now = min(self.now + 1, self._last)
        return self.now

    def end_step(self, event: ev.StepEnd) -> list[Interval]:
        if self._begin is None:
            return []
        starts = range(self._begin, self._begin + STEP_US, _QUARTER)
        self.cut_step()
        return [
            Interval(name, start, start + _QUARTER)
            for name, start in zip(PHASES, starts, strict=True)
        ]

    def cut_step(self) -> None:
        if self._begin is not None:
            self.now = self._begin + STEP_US
            self._begin = None


def _microseconds(seconds: float) -> int:
    return max(0, round(seconds * 1e6))
