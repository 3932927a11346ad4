"""What a view remembers beyond the present state: past steps, prefix lookups, ages of blocks (and `lives`).

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
LOOKUPS_KEPT = 32


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


class Lookup(msgspec.Struct):
    """What the prefix cache had for one sequence when it entered the batch."""

    seq_id: str
    step: int
    hits: list[tuple[int, int, bool]] = []
    """(entry of the block table, block, whether it was free), in order"""
    missed: int | None = None
    """The first entry that was not found."""
    why: str = ""


class Lookups(msgspec.Struct):
    """The last lookups, oldest first."""

    KINDS: ClassVar = (ev.BlockHit, ev.BlockMissed)

    recent: list[Lookup] = []

    def apply(self, event: ev.Event) -> None:
        """Take in the next event."""
        match event:
            case ev.BlockHit():
                self._of(event).hits.append((event.logical, event.block_id, event.was_free))
            case ev.BlockMissed():
                lookup = self._of(event)
                lookup.missed, lookup.why = event.logical, event.why

    def of(self, seq_id: str | None) -> Lookup | None:
        """The last one of a sequence."""
        return next((lookup for lookup in reversed(self.recent) if lookup.seq_id == seq_id), None)

    def _of(self, event: ev.BlockHit | ev.BlockMissed) -> Lookup:
        last = self.recent[-1] if self.recent else None
        if last is None or (last.seq_id, last.step) != (event.seq_id, event.step):
            last = Lookup(event.seq_id, event.step)
            self.recent.append(last)
            if len(self.recent) > LOOKUPS_KEPT:
                del self.recent[0]
        return last


class BlockAges(msgspec.Struct):
    """Of every block: whose it was last, and when it was handed out and touched last."""

    KINDS: ClassVar = (
        ev.StepBegin,
        ev.StepScheduled,
        ev.BlockAllocated,
        ev.BlockHit,
        ev.BlockReleased,
        ev.BlockFreed,
        ev.BlockHashed,
        ev.BlockCopied,
        ev.BlockEvicted,
    )

    last_owner: dict[int, str] = {}
    born: dict[int, int] = {}
    """Step in which it was last taken from the free queue."""
    touched: dict[int, int] = {}
    changed: set[int] = set()
    """Blocks that an event of the current step has touched."""
    last_scheduled: str | None = None

    def apply(self, event: ev.Event) -> str | None:
        """Take in the next event; the sequence that it is about, or that held its block last."""
        owner = getattr(event, "seq_id", None)
        match event:
            case ev.StepBegin():
                self.changed.clear()
            case ev.StepScheduled():
                self.last_scheduled = event.seq_id
            case ev.BlockCopied():
                self._touch(event.src, event.step)
                self._touch(event.dst, event.step)
                self.born[event.dst] = event.step
                self.last_owner[event.dst] = event.seq_id
            case ev.BlockEvicted():
                self._touch(event.block_id, event.step)
                return self.last_owner.get(event.block_id)
            case ev.BlockFreed():
                self._touch(event.block_id, event.step)
            case ev.BlockHashed():
                self._touch(event.block_id, event.step)
                # Of several that share or shared it, the one whose tokens have just filled it.
                owner = self.last_scheduled
                if owner is not None:
                    self.last_owner[event.block_id] = owner
            case ev.BlockAllocated() | ev.BlockHit() | ev.BlockReleased():
                self._touch(event.block_id, event.step)
                if isinstance(event, ev.BlockAllocated):
                    self.born[event.block_id] = event.step
                self.last_owner[event.block_id] = event.seq_id
        return owner

    def _touch(self, block_id: int, step: int) -> None:
        self.changed.add(block_id)
        self.touched[block_id] = step
