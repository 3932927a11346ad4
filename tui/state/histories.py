"""What a view remembers beyond the present state: past steps (and `lives`, `block_histories`).

The engine has forgotten all of this, but its events told it. Each part is plain data with one
`apply`, so that a keyframe can hold it and a rewound dashboard shows the same as a live one did.
The easy thing to get wrong is growth: a server runs for weeks, so every list here has an end.

`APPLY` of a part says what it does with each kind of event that it must be given; the others it
need not see. A table and no `match`: half of all events would try every case of it before they find
their own, and a long log is indexed through here event by event.
"""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import msgspec

from minivllm.events import types as ev

STEPS_KEPT = 240
SHARES_KEPT = 48
"""Of so many of the last steps it is also remembered who got how much."""


class Preemption(msgspec.Struct, gc=False):
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


class StepRecord(msgspec.Struct, gc=False):
    """One step that has ended."""

    step: int
    t: float
    budget: int
    prefill_tokens: int = 0
    decode_tokens: int = 0
    packed_shares: bytes = b""
    """`shares` as a keyframe holds them, empty once the step is long past. A seek restores
    thousands and a screen shows few.
    """
    num_hits: int = 0
    num_evicted: int = 0
    preempted: list[Preemption] = []
    deferred: tuple[str, str, int, int] | None = None
    """Who was turned away: (seq_id, reason, need, free)."""
    seconds: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """schedule, prepare, model, sample"""

    @property
    def shares(self) -> list[Share]:
        """Who got how much, in the order of the plan; nobody once the step is long past."""
        return _SHARES_DECODER.decode(self.packed_shares) if self.packed_shares else []

    @property
    def used(self) -> int:
        return self.prefill_tokens + self.decode_tokens


_SHARES_DECODER = msgspec.msgpack.Decoder(list[Share])


class PastSteps(msgspec.Struct):
    """The last steps, oldest first."""

    records: list[StepRecord] = []
    current: StepRecord | None = None
    """The step that is under way."""
    current_shares: list[tuple[str, ev.ScheduledKind, int]] = []
    """Of that step, so far."""

    def apply(self, event: ev.Event) -> None:
        """Take in the next event."""
        self.APPLY[type(event)](self, event)

    def _begin(self, event: ev.StepBegin) -> None:
        self.current = StepRecord(event.step, event.t, event.budget)
        self.current_shares = []

    def _share(self, event: ev.StepScheduled) -> None:
        self.current_shares.append((event.seq_id, event.kind, event.num_tokens))

    def _hit(self, event: ev.BlockHit) -> None:
        if self.current is not None:  # else the recording begins in the middle of a step
            self.current.num_hits += 1

    def _evicted(self, event: ev.BlockEvicted) -> None:
        if self.current is not None:
            self.current.num_evicted += 1

    def _preempted(self, event: ev.RequestPreempted) -> None:
        if self.current is not None:
            self.current.preempted.append(Preemption.of(event))

    def _deferred(self, event: ev.RequestDeferred) -> None:
        if self.current is not None:
            self.current.deferred = (event.seq_id, event.reason, event.need, event.free)

    def _end(self, event: ev.StepEnd) -> None:
        current = self.current
        if current is not None:
            current.t = event.t
            current.prefill_tokens = sum(
                number for _, kind, number in self.current_shares if kind == "prefill"
            )
            current.decode_tokens = (
                sum(number for *_, number in self.current_shares) - current.prefill_tokens
            )
            current.packed_shares = msgspec.msgpack.encode(self.current_shares)
            current.seconds = (event.t_schedule, event.t_prepare, event.t_model, event.t_sample)
            self._keep(current)
            self.current = None

    def _keep(self, record: StepRecord) -> None:
        self.records.append(record)
        if len(self.records) > SHARES_KEPT:
            self.records[-SHARES_KEPT - 1].packed_shares = b""
        if len(self.records) > STEPS_KEPT:
            del self.records[0]

    APPLY: ClassVar[dict[type[ev.Event], Callable]] = {
        ev.StepBegin: _begin,
        ev.StepScheduled: _share,
        ev.BlockHit: _hit,
        ev.BlockEvicted: _evicted,
        ev.RequestPreempted: _preempted,
        ev.RequestDeferred: _deferred,
        ev.StepEnd: _end,
    }
