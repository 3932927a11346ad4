"""What a view remembers beyond the present state: past steps (and `lives`, `block_histories`).

The engine has forgotten all of this, but its events told it. Each part is plain data with one `apply`, so that a
keyframe can hold it and a rewound dashboard shows the same as a live one did. The easy thing to get wrong is
growth: a server runs for weeks, so every list here has an end.

`KINDS` of a part are the kinds of events that it must be given; the others it need not see.
"""

from typing import ClassVar, NamedTuple

import msgspec

from minivllm.events import types as ev

STEPS_KEPT = 240
SHARES_KEPT = 48
"""Of so many of the last steps it is also remembered who got how much."""


class Preemption(msgspec.Struct):
    """Who lost its blocks and slot, for whom, and how short of blocks that one was."""

    step: int
    seq_id: str
    victim_of: str
    need: int
    free: int

    @classmethod
    def of(cls, event: ev.RequestPreempted) -> "Preemption":
        return cls(event.step, event.seq_id, event.victim_of, event.need, event.free)


class Share(NamedTuple):
    """Tokens of one step's budget that went to one sequence."""

    seq_id: str
    kind: ev.ScheduledKind
    num_tokens: int


class StepRecord(msgspec.Struct):
    """One step that has ended."""

    step: int
    t: float
    budget: int
    prefill_tokens: int = 0
    decode_tokens: int = 0
    shares: list[Share] = []
    """In the order of the plan; empty once the step is long past."""
    num_hits: int = 0
    num_evicted: int = 0
    preempted: list[Preemption] = []
    deferred: tuple[str, str, int, int] | None = None
    """Who was turned away: (seq_id, reason, need, free)."""
    seconds: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """schedule, prepare, model, sample"""

    @property
    def used(self) -> int:
        return self.prefill_tokens + self.decode_tokens


class StepHistory(msgspec.Struct):
    """The last steps, oldest first."""

    KINDS: ClassVar = (
        ev.StepBegin,
        ev.StepScheduled,
        ev.BlockHit,
        ev.BlockEvicted,
        ev.RequestPreempted,
        ev.RequestDeferred,
        ev.StepEnd,
    )

    records: list[StepRecord] = []
    current: StepRecord | None = None
    """The step that is under way."""

    def apply(self, event: ev.Event) -> None:
        """Take in the next event."""
        match event:
            case ev.StepBegin():
                self.current = StepRecord(event.step, event.t, event.budget)
            case _ if self.current is None:
                return  # the recording begins in the middle of a step
            case ev.StepScheduled():
                self.current.shares.append(Share(event.seq_id, event.kind, event.num_tokens))
                if event.kind == "prefill":
                    self.current.prefill_tokens += event.num_tokens
                else:
                    self.current.decode_tokens += event.num_tokens
            case ev.BlockHit():
                self.current.num_hits += 1
            case ev.BlockEvicted():
                self.current.num_evicted += 1
            case ev.RequestPreempted():
                self.current.preempted.append(Preemption.of(event))
            case ev.RequestDeferred():
                self.current.deferred = (event.seq_id, event.reason, event.need, event.free)
            case ev.StepEnd():
                self.current.t = event.t
                self.current.seconds = (event.t_schedule, event.t_prepare, event.t_model, event.t_sample)
                self._keep(self.current)
                self.current = None

    def _keep(self, record: StepRecord) -> None:
        self.records.append(record)
        if len(self.records) > SHARES_KEPT:
            self.records[-SHARES_KEPT - 1].shares = []
        if len(self.records) > STEPS_KEPT:
            del self.records[0]
