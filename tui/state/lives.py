"""Lives of sequences: the arrival, phases and end of each. A part of the history (`histories`).

Keeps only the newest ended sequences. Drops pruned beams, because one search prunes hundreds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import msgspec

from minivllm.events import types as ev
from minivllm.events.ledger import TokenTimes
from minivllm.tui.state.histories import Preemption

LIVES_KEPT = 64

LifePhase = Literal["queued", "prefill", "decode", "preempted"]


@dataclass(slots=True, kw_only=True)
class Life(TokenTimes):
    """One sequence, from its arrival or fork to its end."""

    seq_id: str
    request_id: str
    phases: list[tuple[int, float, LifePhase]]
    """(first step, time, phase), in order."""
    last_token_step: int | None = None
    preemption: Preemption | None = None
    """The most recent preemption."""
    end: tuple[int, float, str] | None = None
    """(step, time, reason)"""
    parent: str | None = None
    """The sequence from which this one was forked, or the nearest remembered ancestor."""


class Lives(msgspec.Struct):
    """Live sequences and the newest ended ones, in order of arrival."""

    by_sequence: dict[str, Life] = {}
    ended: list[str] = []

    def apply(self, event: ev.Event) -> None:
        self.APPLY[type(event)](self, event)

    def _arrived(self, event: ev.RequestArrived) -> None:
        # A request can reuse the name of an old one.
        self._drop(event.seq_id)
        self._begin(event.seq_id, event.request_id, event, "queued")

    def _forked(self, event: ev.RequestForked) -> None:
        parent = self.by_sequence.get(event.parent)
        if parent is not None:
            self._begin(event.seq_id, parent.request_id, event, "decode")
            self.by_sequence[event.seq_id].parent = parent.seq_id

    def _admitted(self, event: ev.RequestAdmitted | ev.RequestResumed) -> None:
        self._enter(event, "prefill")

    def _preempted(self, event: ev.RequestPreempted) -> None:
        self._enter(event, "preempted")
        life = self.by_sequence.get(event.seq_id)
        if life is not None:
            life.preemption = Preemption.of(event)

    def _scheduled(self, event: ev.StepScheduled) -> None:
        self._enter(event, event.kind)

    def _sampled(self, event: ev.TokenSampled) -> None:
        life = self.by_sequence.get(event.seq_id)
        if life is not None:
            life.add_token(event.t)
            life.last_token_step = event.step

    def _finished(self, event: ev.RequestFinished) -> None:
        self._end(event, event.reason)

    def _aborted(self, event: ev.RequestAborted) -> None:
        self._end(event, "abort")

    def _pruned(self, event: ev.BeamPruned) -> None:
        self._drop(event.seq_id)  # a search prunes hundreds

    def _begin(self, seq_id: str, request_id: str, event: ev.Event, phase: LifePhase) -> None:
        phases = [(event.step, event.t, phase)]
        self.by_sequence[seq_id] = Life(
            event.t, seq_id=seq_id, request_id=request_id, phases=phases
        )

    def _enter(self, event: ev.Event, phase: LifePhase) -> None:
        life = self.by_sequence.get(event.seq_id)
        if life is not None and life.phases[-1][2] != phase:
            life.phases.append((event.step, event.t, phase))

    def _end(self, event: ev.Event, reason: str) -> None:
        life = self.by_sequence.get(event.seq_id)
        if life is None:
            return
        life.end = (event.step, event.t, reason)
        self.ended.append(event.seq_id)
        if len(self.ended) > LIVES_KEPT:
            self._drop(self.ended[0])

    def _drop(self, seq_id: str) -> None:
        dropped = self.by_sequence.pop(seq_id, None)
        if dropped is not None:
            for life in self.by_sequence.values():
                if life.parent == seq_id:
                    life.parent = dropped.parent
        if seq_id in self.ended:
            self.ended.remove(seq_id)

    APPLY: ClassVar[dict[type[ev.Event], Callable]] = {
        ev.RequestArrived: _arrived,
        ev.RequestForked: _forked,
        ev.RequestAdmitted: _admitted,
        ev.RequestResumed: _admitted,
        ev.RequestPreempted: _preempted,
        ev.StepScheduled: _scheduled,
        ev.TokenSampled: _sampled,
        ev.RequestFinished: _finished,
        ev.RequestAborted: _aborted,
        ev.BeamPruned: _pruned,
    }
