"""What a view remembers beyond the present state: past steps, and the lives of sequences.

The engine has forgotten all of this, but its events told it. Each part is plain data with one `apply`, so that a
keyframe can hold it and a rewound dashboard shows the same as a live one did. The easy thing to get wrong is
growth: a server runs for weeks, so every list here has an end.

`KINDS` of a part are the kinds of events that it must be given; the others it need not see.
"""

from typing import ClassVar, Literal

import msgspec

from minivllm.events import types as ev

STEPS_KEPT = 240
SHARES_KEPT = 48
"""Of so many of the last steps it is also remembered who got how much."""
LIVES_KEPT = 64

Phase = Literal["queued", "prefill", "decode", "preempted"]


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


class StepRecord(msgspec.Struct):
    """One step that has ended."""

    step: int
    t: float
    budget: int
    prefill_tokens: int = 0
    decode_tokens: int = 0
    shares: list[tuple[str, str, int]] = []
    """(seq_id, kind, tokens) in the order of the plan; empty once the step is long past."""
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
                self.current.shares.append((event.seq_id, event.kind, event.num_tokens))
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


class Life(msgspec.Struct):
    """One sequence from its arrival to its end."""

    seq_id: str
    request_id: str
    phases: list[tuple[int, float, Phase]]
    """(first step, time, phase), in order."""
    first_token: float | None = None
    """When its first token came."""
    last_token: float | None = None
    num_tokens: int = 0
    """Output tokens."""
    preemption: Preemption | None = None
    """The last one that it suffered."""
    end: tuple[int, float, str] | None = None
    """(step, time, reason)"""

    @property
    def arrived(self) -> float:
        return self.phases[0][1]

    @property
    def time_to_first_token(self) -> float | None:
        return None if self.first_token is None else self.first_token - self.arrived

    @property
    def time_per_output_token(self) -> float | None:
        """Seconds from one token to the next, on average; None before the second."""
        if self.num_tokens < 2:
            return None
        return (self.last_token - self.first_token) / (self.num_tokens - 1)


class Lives(msgspec.Struct):
    """The sequences that are there and the last ones that have ended, in order of arrival."""

    KINDS: ClassVar = (
        ev.RequestArrived,
        ev.RequestForked,
        ev.RequestAdmitted,
        ev.RequestResumed,
        ev.RequestPreempted,
        ev.StepScheduled,
        ev.TokenSampled,
        ev.RequestFinished,
        ev.RequestAborted,
        ev.BeamPruned,
    )

    by_sequence: dict[str, Life] = {}
    ended: list[str] = []

    def apply(self, event: ev.Event) -> None:
        """Take in the next event."""
        match event:
            case ev.RequestArrived():
                # A request with an old one's name is another one.
                self._drop(event.seq_id)
                self._begin(event.seq_id, event.request_id, event, "queued")
            case ev.RequestForked():
                parent = self.by_sequence.get(event.parent)
                if parent is not None:
                    self._begin(event.seq_id, parent.request_id, event, "decode")
            case ev.RequestAdmitted() | ev.RequestResumed():
                self._enter(event, "prefill")
            case ev.RequestPreempted():
                self._enter(event, "preempted")
                self._note_preemption(event)
            case ev.StepScheduled():
                self._enter(event, event.kind)
            case ev.TokenSampled():
                self._note_token(event)
            case ev.RequestFinished():
                self._end(event, event.reason)
            case ev.RequestAborted():
                self._end(event, "abort")
            case ev.BeamPruned():
                self._drop(event.seq_id)  # a search prunes hundreds

    def _begin(self, seq_id: str, request_id: str, event: ev.Event, phase: Phase) -> None:
        self.by_sequence[seq_id] = Life(seq_id, request_id, [(event.step, event.t, phase)])

    def _enter(self, event: ev.Event, phase: Phase) -> None:
        life = self.by_sequence.get(event.seq_id)
        if life is not None and life.phases[-1][2] != phase:
            life.phases.append((event.step, event.t, phase))

    def _note_preemption(self, event: ev.RequestPreempted) -> None:
        life = self.by_sequence.get(event.seq_id)
        if life is not None:
            life.preemption = Preemption.of(event)

    def _note_token(self, event: ev.TokenSampled) -> None:
        life = self.by_sequence.get(event.seq_id)
        if life is None:
            return
        if life.first_token is None:
            life.first_token = event.t
        life.last_token = event.t
        life.num_tokens += 1

    def _end(self, event: ev.Event, reason: str) -> None:
        life = self.by_sequence.get(event.seq_id)
        if life is None:
            return
        life.end = (event.step, event.t, reason)
        self.ended.append(event.seq_id)
        if len(self.ended) > LIVES_KEPT:
            self._drop(self.ended[0])

    def _drop(self, seq_id: str) -> None:
        self.by_sequence.pop(seq_id, None)
        if seq_id in self.ended:
            self.ended.remove(seq_id)
