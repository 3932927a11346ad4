"""Find the first step in which the plans of two recordings differ.

Reads both from the beginning, a limited number of events per call. Two runs of one trace differ
early or never, so this is cheap. A step that one recording lacks counts as a difference only if
that recording has ended; otherwise it may still grow.
"""

from collections import deque
from typing import NamedTuple

from minivllm.events import types as ev
from minivllm.events.recording.recording import Recording
from minivllm.tui.state.histories import Share

_CHUNK = 1000


class StepPlan(NamedTuple):
    """The number of tokens for each sequence in a step, in the order of the plan."""

    step: int
    shares: tuple[Share, ...]
    is_torn: bool = False
    """Whether the recording ends inside this step, because the engine raised or was killed."""


class Parting(NamedTuple):
    """The first step with different plans. If a recording has no such step, its plan is None."""

    step: int
    a: StepPlan | None
    b: StepPlan | None


class _Side:
    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.plans: deque[StepPlan] = deque()
        self._index = 0
        self._step: int | None = None
        self._shares: list[Share] = []

    @property
    def has_more(self) -> bool:
        return self._index < len(self.recording)

    def read(self) -> None:
        stop = min(self._index + _CHUNK, len(self.recording))
        for event in self.recording.events(self._index, stop):
            match event:
                case ev.StepBegin():
                    self._step, self._shares = event.step, []
                case ev.StepScheduled():
                    self._shares.append(Share(event.seq_id, event.kind, event.num_tokens))
                case ev.StepEnd():
                    self.plans.append(StepPlan(event.step, tuple(self._shares)))
                    self._step = None
        self._index = stop

    def end(self) -> None:
        """Complete an unfinished step, because no more events will come."""
        if self._step is not None and not self.has_more:
            self.plans.append(StepPlan(self._step, tuple(self._shares), is_torn=True))
            self._step = None


class PlanSearch:
    def __init__(self, a: Recording, b: Recording) -> None:
        self._a, self._b = _Side(a), _Side(b)
        self.parting: Parting | None = None
        self.same_up_to = -1
        """The last step with equal plans; -1 before the first step."""

    @property
    def has_more(self) -> bool:
        return self.parting is None and (self._a.has_more or self._b.has_more)

    def look(self, a_ended: bool, b_ended: bool) -> None:
        """Read up to a thousand events per side. a_ended, b_ended: that recording grows no more."""
        if self.parting is not None:
            return
        for side, ended in ((self._a, a_ended), (self._b, b_ended)):
            if not side.plans and side.has_more:
                side.read()
            if ended:
                side.end()
        a, b = self._a.plans, self._b.plans
        while a and b:
            if a[0] != b[0]:
                step = min(a[0].step, b[0].step)
                self.parting = Parting(
                    step, *(side[0] if side[0].step == step else None for side in (a, b))
                )
                return
            self.same_up_to = a[0].step
            a.popleft()
            b.popleft()
        if b and a_ended and not self._a.has_more:
            self.parting = Parting(b[0].step, None, b[0])
        elif a and b_ended and not self._b.has_more:
            self.parting = Parting(a[0].step, a[0], None)
