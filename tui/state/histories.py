"""Past steps: a part of the history that a view remembers (with the ledger and `block_histories`).

The engine itself keeps no history. Each part is plain data, so that a keyframe can store it. Every
list has a limit, because a server runs for weeks.

`APPLY` maps each relevant kind of event to a method. A `match` statement would be slower on long
logs: half of all events would be compared with every case and match none.
"""

from collections.abc import Callable
from typing import ClassVar, Literal, NamedTuple

import msgspec

from minivllm.events import types as ev

STEPS_KEPT = 240
WAITS_KEPT = 64
SHARES_KEPT = 48
"""Number of last steps that keep their shares."""


ShareKind = ev.ScheduledKind | Literal["draft", "forced"]
"""`forced`: drafts that a grammar forces."""


class Share(NamedTuple):
    """The part of a step's token budget that one sequence got. Its drafts have their own share."""

    seq_id: str
    kind: ShareKind
    num_tokens: int


class StepRecord(msgspec.Struct, gc=False):
    step: int
    t: float
    budget: int
    prefill_tokens: int = 0
    decode_tokens: int = 0
    """Without drafts."""
    draft_tokens: int = 0
    """With those that a grammar forces."""
    num_accepted: int = 0
    """How many drafts were right."""
    packed_shares: bytes = b""
    """`shares`, encoded as in a keyframe, and decoded only when drawn; empty for old steps."""
    num_hits: int = 0
    num_evicted: int = 0
    preempted: list[ev.RequestPreempted] = []
    deferred: tuple[str, str, int, int] | None = None
    """(seq_id, reason, need, free) of the last sequence that was not admitted."""
    seconds: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """Seconds for (schedule, prepare, model, sample)."""
    num_used_blocks: int = 0
    """At the end of the step."""
    num_tokens: int = 0
    """Number of output tokens."""

    @property
    def shares(self) -> list[Share]:
        """In the order of the plan; empty for old steps."""
        return _SHARES_DECODER.decode(self.packed_shares) if self.packed_shares else []

    @property
    def used(self) -> int:
        return self.prefill_tokens + self.decode_tokens + self.draft_tokens


_SHARES_DECODER = msgspec.msgpack.Decoder(list[Share])


class PastSteps(msgspec.Struct):
    records: list[StepRecord] = []
    current: StepRecord | None = None
    current_shares: list[tuple[str, ShareKind, int]] = []
    waits: list[tuple[ev.RequestDeferred, int]] = []
    """A sequence's deferral, and the last of the steps that repeated it."""

    def _begin(self, event: ev.StepBegin) -> None:
        self.current = StepRecord(event.step, event.t, event.budget)
        self.current_shares = []

    def _share(self, event: ev.StepScheduled) -> None:
        self.current_shares.append((event.seq_id, event.kind, event.num_tokens))

    def _drafted(self, event: ev.DraftProposed) -> None:
        # Drafts are planned after all other tokens, so their shares are last.
        kind: ShareKind = "forced" if event.source == "grammar" else "draft"
        self.current_shares.append((event.seq_id, kind, len(event.token_ids)))

    def _verified(self, event: ev.DraftVerified) -> None:
        if self.current is not None:
            self.current.num_accepted += event.num_accepted

    def _hit(self, event: ev.BlockHit) -> None:
        if self.current is not None:  # None if the recording begins inside a step
            self.current.num_hits += 1

    def _evicted(self, event: ev.BlockEvicted) -> None:
        if self.current is not None:
            self.current.num_evicted += 1

    def _preempted(self, event: ev.RequestPreempted) -> None:
        if self.current is not None:
            self.current.preempted.append(event)

    def _deferred(self, event: ev.RequestDeferred) -> None:
        if self.current is not None:
            self.current.deferred = (event.seq_id, event.reason, event.need, event.free)
        for at in range(len(self.waits))[-8:]:  # a step can defer several sequences
            first, last = self.waits[at]
            same = (first.seq_id, first.reason) == (event.seq_id, event.reason)
            if same and last >= event.step - 1:
                self.waits[at] = (first, event.step)
                return
        self.waits = [*self.waits, (event, event.step)][-WAITS_KEPT:]

    def _sampled(self, event: ev.TokenSampled) -> None:
        if self.current is not None:
            self.current.num_tokens += 1

    def _end(self, event: ev.StepEnd) -> None:
        current = self.current
        if current is not None:
            current.t = event.t
            totals = {"prefill": 0, "decode": 0, "draft": 0, "forced": 0}
            for _, kind, number in self.current_shares:
                totals[kind] += number
            current.prefill_tokens, current.decode_tokens = totals["prefill"], totals["decode"]
            current.draft_tokens = totals["draft"] + totals["forced"]
            current.packed_shares = msgspec.msgpack.encode(self.current_shares)
            current.seconds = (event.t_schedule, event.t_prepare, event.t_model, event.t_sample)
            self.records.append(current)
            if len(self.records) > SHARES_KEPT:
                self.records[-SHARES_KEPT - 1].packed_shares = b""
            if len(self.records) > STEPS_KEPT:
                del self.records[0]
            self.current = None

    APPLY: ClassVar[dict[type[ev.Event], Callable]] = {
        ev.StepBegin: _begin,
        ev.StepScheduled: _share,
        ev.DraftProposed: _drafted,
        ev.DraftVerified: _verified,
        ev.BlockHit: _hit,
        ev.BlockEvicted: _evicted,
        ev.RequestPreempted: _preempted,
        ev.RequestDeferred: _deferred,
        ev.TokenSampled: _sampled,
        ev.StepEnd: _end,
    }
