"""`RequestLedger`: what happened to each sequence, and when, folded from events.

`/metrics`, `minivllm compare` and the dashboard all read this one record:

    arrived  admitted  first decode                                       end
    | queued | prefill | decode      | preempted | prefill | decode       |

The decode phase begins when the scheduler plans the first decode, so the first token still belongs
to the prefill. The simulator fills in `SequenceTimes` itself: see `ServedRequest`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import msgspec

from minivllm.events import types as ev

SequencePhase = Literal["queued", "prefill", "decode", "preempted"]


class PhaseStart(msgspec.Struct, frozen=True, gc=False, array_like=True):
    step: int
    t: float
    phase: SequencePhase


class SequenceEnd(msgspec.Struct, frozen=True, gc=False, array_like=True):
    step: int
    t: float
    reason: str
    """`stop`, `length`, `abort` or `pruned`."""


@dataclass(slots=True)
class SequenceTimes:
    """Times of one sequence, in seconds on the engine's clock."""

    arrived: float
    admitted: float | None = None
    """When the sequence first got a batch slot."""
    first_token: float | None = None
    last_token: float | None = None
    num_tokens: int = 0
    """Number of output tokens."""

    @property
    def time_to_first_token(self) -> float | None:
        return None if self.first_token is None else self.first_token - self.arrived

    @property
    def time_per_output_token(self) -> float | None:
        """Mean seconds between two tokens; None before the second token."""
        if self.num_tokens < 2:
            return None
        return (self.last_token - self.first_token) / (self.num_tokens - 1)


@dataclass(slots=True)
class RequestRecord:
    """What the sequences of one request share."""

    request_id: str
    num_prompt_tokens: int
    max_tokens: int
    n: int
    num_sequences: int = 1
    """Number of unfinished sequences."""
    num_first_tokens: int = 0
    """Number of sequences with a token. From 1 on, the prompt is computed."""
    most_tokens: int = 0
    """Number of output tokens of the longest sequence that has ended."""


@dataclass(slots=True, kw_only=True)
class SequenceRecord(SequenceTimes):
    """One sequence. A fork starts with the times and tokens of its parent."""

    seq_id: str
    request: RequestRecord
    phases: list[PhaseStart]
    """In order of time. The first phase is `queued`, or `decode` for a fork."""
    end: SequenceEnd | None = None
    parent: str | None = None
    """The sequence from which this one was forked, or the nearest remembered ancestor."""
    num_cached_tokens: int = 0
    """Prompt tokens found in the prefix cache at the first admission."""
    preemptions: list[ev.RequestPreempted] = field(default_factory=list)
    """One for each `preempted` phase."""
    arrived_step: int = 0
    """The number of the last step before its arrival."""
    first_token_step: int | None = None
    last_token_step: int | None = None

    @property
    def phase(self) -> SequencePhase:
        """The newest phase."""
        return self.phases[-1].phase

    @property
    def num_preemptions(self) -> int:
        return len(self.preemptions)

    @property
    def preemption(self) -> ev.RequestPreempted | None:
        """The most recent preemption."""
        return self.preemptions[-1] if self.preemptions else None

    @property
    def is_fork(self) -> bool:
        return self.phases[0].phase == "decode"


@dataclass(slots=True)
class RequestLedger:
    """One method for each event of a request. Call them in order, from the run's first event.

    Only `scheduled` may be left out; then decode phases are missing. `/metrics` and `compare` leave
    it out, because every step has this event for every running sequence.
    """

    num_kept: int = 0
    """How many ended sequences to remember, without pruned beams: a search prunes hundreds."""
    sequences: dict[str, SequenceRecord] = field(default_factory=dict)
    """The unfinished sequences and the newest `num_kept` ended ones, in order of arrival."""
    num_running: int = 0
    kept: list[str] = field(default_factory=list)
    """Ended sequences in `sequences`, oldest first."""

    def apply(self, event: ev.Event) -> None:
        """Apply an event of a kind in `APPLY`. Ignore sequences whose arrival is unknown."""
        kind, known = type(event), self.sequences
        if (
            event.seq_id in known
            or kind is ev.RequestArrived
            or (kind is ev.RequestForked and event.parent in known)
        ):
            self.APPLY[kind](self, event)

    def arrived(self, event: ev.RequestArrived) -> None:
        for seq_id in self.kept[:]:  # a request can reuse the name of an ended one
            if self.sequences[seq_id].request.request_id == event.request_id:
                self.kept.remove(seq_id)
                self._drop(seq_id)
        self.sequences[event.seq_id] = SequenceRecord(
            event.t,
            seq_id=event.seq_id,
            request=RequestRecord(
                event.request_id, len(event.prompt_token_ids), event.max_tokens, event.n
            ),
            phases=[PhaseStart(event.step, event.t, "queued")],
            arrived_step=event.step,
        )

    def admitted(self, event: ev.RequestAdmitted | ev.RequestResumed) -> SequenceRecord:
        record = self.sequences[event.seq_id]
        self.num_running += 1
        record.phases.append(PhaseStart(event.step, event.t, "prefill"))
        if record.admitted is None:
            record.admitted, record.num_cached_tokens = event.t, event.num_cached_tokens
        return record

    def scheduled(self, event: ev.StepScheduled) -> None:
        record = self.sequences[event.seq_id]
        if record.phases[-1].phase != event.kind:
            record.phases.append(PhaseStart(event.step, event.t, event.kind))

    def preempted(self, event: ev.RequestPreempted) -> None:
        record = self.sequences[event.seq_id]
        self.num_running -= 1
        record.phases.append(PhaseStart(event.step, event.t, "preempted"))
        record.preemptions.append(event)

    def forked(self, event: ev.RequestForked) -> None:
        # The fork inherits the parent's waiting time, but not its preemptions.
        record = self.sequences[event.seq_id] = replace(
            self.sequences[event.parent],
            seq_id=event.seq_id,
            parent=event.parent,
            phases=[PhaseStart(event.step, event.t, "decode")],
            preemptions=[],
        )
        record.request.num_sequences += 1
        self.num_running += 1

    def sampled(self, event: ev.TokenSampled) -> float | None:
        """Count a token. Return the seconds since the sequence's last token, or None.

        0.0 for further tokens of the same step, after accepted drafts: readers get them at once.
        """
        record = self.sequences[event.seq_id]
        before, record.last_token = record.last_token, event.t
        is_same_step = record.last_token_step == event.step
        record.last_token_step = event.step
        record.num_tokens += 1
        if before is None:
            record.first_token, record.first_token_step = event.t, event.step
            record.request.num_first_tokens += 1
            return None
        return 0.0 if is_same_step else event.t - before

    def ended(
        self, event: ev.RequestFinished | ev.RequestAborted | ev.BeamPruned
    ) -> SequenceRecord:
        record, kind = self.sequences[event.seq_id], type(event)
        if record.phases[-1].phase in ("prefill", "decode"):
            self.num_running -= 1
        reason = event.reason if kind is ev.RequestFinished else _REASONS[kind]
        record.end = SequenceEnd(event.step, event.t, reason)
        request = record.request
        request.num_sequences -= 1
        if record.num_tokens > request.most_tokens:
            request.most_tokens = record.num_tokens
        if self.num_kept == 0:
            del self.sequences[event.seq_id]
        elif kind is ev.BeamPruned:
            self._drop(event.seq_id)
        else:
            self.kept.append(event.seq_id)
            if len(self.kept) > self.num_kept:
                self._drop(self.kept.pop(0))
        return record

    def _drop(self, seq_id: str) -> None:
        dropped = self.sequences.pop(seq_id)
        for record in self.sequences.values():
            if record.parent == seq_id:
                record.parent = dropped.parent

    APPLY: ClassVar[dict[type[ev.Event], Callable]] = {
        ev.RequestArrived: arrived,
        ev.RequestAdmitted: admitted,
        ev.RequestResumed: admitted,
        ev.StepScheduled: scheduled,
        ev.RequestPreempted: preempted,
        ev.RequestForked: forked,
        ev.TokenSampled: sampled,
        ev.RequestFinished: ended,
        ev.RequestAborted: ended,
        ev.BeamPruned: ended,
    }


_REASONS = {ev.RequestAborted: "abort", ev.BeamPruned: "pruned"}
