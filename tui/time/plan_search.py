"""The first step at which the plans of two recordings differ.

Both are read from their beginnings, in step with one another and a bounded number of events a call,
so that it costs little however long they are; two runs of one trace differ early or never. The easy
thing to get wrong is the end: a recording that is still growing has not ended, so a step that the
other one lacks, or has only begun, is a difference only then.
"""

from collections import deque
from typing import NamedTuple

from minivllm.events import types as ev
from minivllm.tui.state.histories import Share
from minivllm.tui.time.event_search import Events

_CHUNK = 1000


class StepPlan(NamedTuple):
    """What a step gave to whom, in order."""

    step: int
    shares: tuple[Share, ...]
    is_torn: bool = False
    """The recording ends in the middle of this step: the engine raised, or was ended."""


class Parting(NamedTuple):
    """Where two runs go different ways; None on a side that has ended before."""

    step: int
    a: StepPlan | None
    b: StepPlan | None


class _Side:
    """Reads the plans of one recording."""

    def __init__(self, recording: Events) -> None:
        self.recording = recording
        self.plans: deque[StepPlan] = deque()
        self._index = 0
        self._step: int | None = None
        """The step that it is in."""
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
        """Nothing more comes. A step that has not ended never will."""
        if self._step is not None and not self.has_more:
            self.plans.append(StepPlan(self._step, tuple(self._shares), is_torn=True))
            self._step = None


class PlanSearch:
    """Compares two recordings, a little at each `look`."""

    def __init__(self, a: Events, b: Events) -> None:
        self._a, self._b = _Side(a), _Side(b)
        self.parting: Parting | None = None
        self.same_up_to = -1
        """Last step whose plans were seen to be the same; -1 before the first."""

    @property
    def has_more(self) -> bool:
        """Whether looking on would tell more."""
        return self.parting is None and (self._a.has_more or self._b.has_more)

    def look(self, a_ended: bool, b_ended: bool) -> None:
        """Read on, each side a thousand events at most. `..._ended`: the recording will not grow
        any more.
        """
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
