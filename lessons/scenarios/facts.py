"""`RunFacts`: the facts of one run, counted from its events.

The fold has the current state; this class counts what happened before. It counts each event before
the fold applies it, because some facts need the earlier state. A request can have several
sequences: a forked sequence has no arrival event and can be preempted alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.kv_usage import KVUsage, KVUsageMeter
from minivllm.sampling_params import StructuredOutputsKind


@dataclass(slots=True)
class RequestFacts:
    name: str
    num_prompt_tokens: int
    arrived_after_step: int
    admitted_in_step: int | None = None
    num_cached_tokens: int = 0
    """Tokens from the prefix cache at the first admission."""
    chunks: list[int] = field(default_factory=list)
    """Prompt tokens computed in each step, before any preemption."""
    num_preemptions: int = 0
    """Preemptions of all sequences of this request."""
    prompt: str | None = None
    num_sequences: int = 1
    """All sequences that the request ever had."""
    num_copies: int = 0
    """Blocks that its sequences copied before writing to them."""
    num_pruned: int = 0
    num_together: int = 1
    form: str | None = None
    """The kind of its grammar, such as `json` or `regex`; None without one."""
    ended_in_step: int | None = None
    """Step in which a sequence of this request last ended."""
    sample_texts: dict[str, str] = field(default_factory=dict)
    """Sequence id -> text of each sample that has ended."""
    beams_found: list[str] | None = None
    """Results of the beam search, best first; None before the search ends, and for samples."""

    @property
    def texts(self) -> list[str]:
        """The texts of the samples in order, or the results of the beam search, best first."""
        if self.beams_found is not None:
            return self.beams_found
        return [self.sample_texts[seq_id] for seq_id in sorted(self.sample_texts, key=_index)]

    @property
    def steps_waited(self) -> int | None:
        """Whole steps between arrival and admission; None before the admission."""
        return (
            None
            if self.admitted_in_step is None
            else self.admitted_in_step - self.arrived_after_step - 1
        )


class RunFacts:
    """Call `apply` with every event, beginning with the first."""

    def __init__(self, header: ev.LogHeader) -> None:
        self.fold = Fold(header)
        self.requests: dict[str, RequestFacts] = {}
        """By request id, in order of arrival."""
        self.hits_per_hash: dict[str, int] = {}
        """Block hash -> number of hits at first admissions."""
        self.times_hashed: dict[str, int] = {}
        """Block hash -> how often this content was computed, which is the number of such blocks."""
        self.hits_on_free_blocks = 0
        self.recomputed_tokens = 0
        """Tokens of resumed sequences that had to be computed again."""
        self.mixed_steps = 0
        self.missed_turns = 0
        """How often a running sequence got no token in a step."""
        self.slot_handovers = 0
        """Number of admissions into a slot that another sequence had before."""
        self.steps_with_waiting = 0
        """Number of steps at whose end a request was waiting."""
        self.slots_busy_while_waiting = 0
        """Scheduled sequences, summed over the steps in `steps_with_waiting`."""
        self.seconds = 0.0
        self.pruned_beams = 0
        self.drafts: dict[str, list[tuple[int, int]]] = {}
        """Request id -> (drafts, accepted drafts) of each step of a sequence that had drafts."""
        self.num_forced = 0
        """Drafts that a grammar forced. All of them are right."""
        self.usage = KVUsageMeter(header)
        self._used_slots: set[int] = set()
        self._computed_when_preempted: dict[str, int] = {}
        self._forked_in_step: set[str] = set()

    @property
    def finished(self) -> list[RequestFacts]:
        over = [
            request for request in self.requests.values() if request.name not in self.fold.requests
        ]
        return sorted(over, key=lambda request: request.ended_in_step)

    @property
    def most_saved(self) -> KVUsage | None:
        """The step in which sharing saved the most blocks; None if no block was shared."""
        most = max(self.usage.samples, key=_num_saved, default=None)
        return most if most is not None and _num_saved(most) > 0 else None

    def apply(self, event: ev.Event) -> None:
        note = _NOTES.get(type(event))
        if note is not None:
            note(self, event)
        self.fold.apply(event)
        self.usage.apply(event)

    # ---- one method per kind of event ----

    def _arrived(self, event: ev.RequestArrived) -> None:
        form = None if event.sampling is None else event.sampling.structured_outputs
        self.requests[event.request_id] = RequestFacts(
            event.request_id,
            len(event.prompt_token_ids),
            event.step,
            prompt=event.prompt,
            form=None if form is None else _kind(form),
        )

    def _request_of(self, seq_id: str) -> RequestFacts:
        return self.requests[self.fold.sequences[seq_id].request_id]

    def _hit(self, event: ev.BlockHit) -> None:
        block_hash = self.fold.blocks[event.block_id].hash
        if block_hash is not None and self._request_of(event.seq_id).admitted_in_step is None:
            self.hits_on_free_blocks += event.was_free
            self.hits_per_hash[block_hash] = self.hits_per_hash.get(block_hash, 0) + 1

    def _hashed(self, event: ev.BlockHashed) -> None:
        self.times_hashed[event.hash] = self.times_hashed.get(event.hash, 0) + 1

    def _admitted(self, event: ev.RequestAdmitted) -> None:
        request = self._request_of(event.seq_id)
        request.admitted_in_step = event.step
        request.num_cached_tokens = event.num_cached_tokens
        self._note_slot(event.slot)

    def _resumed(self, event: ev.RequestResumed) -> None:
        lost = self._computed_when_preempted[event.seq_id] - event.num_cached_tokens
        self.recomputed_tokens += max(0, lost)
        self._note_slot(event.slot)

    def _note_slot(self, slot: int) -> None:
        self.slot_handovers += slot in self._used_slots
        self._used_slots.add(slot)

    def _preempted(self, event: ev.RequestPreempted) -> None:
        self._request_of(event.seq_id).num_preemptions += 1
        self._computed_when_preempted[event.seq_id] = self.fold.sequences[
            event.seq_id
        ].num_computed_tokens

    def _forked(self, event: ev.RequestForked) -> None:
        request = self._request_of(event.parent)
        request.num_sequences += 1
        request.num_together = max(
            request.num_together, 1 + len(self.fold.requests[request.name].seq_ids)
        )
        self._forked_in_step.add(event.seq_id)
        self._used_slots.add(event.slot)

    def _copied(self, event: ev.BlockCopied) -> None:
        self._request_of(event.seq_id).num_copies += 1

    def _beams_found(self, event: ev.BeamsFound) -> None:
        self._request_of(event.seq_id).beams_found = event.texts

    def _pruned(self, event: ev.BeamPruned) -> None:
        request = self._request_of(event.seq_id)
        # Beams that are dropped after the search has ended do not count as pruned.
        if request.beams_found is None:
            request.num_pruned += 1
            self.pruned_beams += 1

    def _ended(self, event: ev.RequestFinished | ev.RequestAborted) -> None:
        request = self._request_of(event.seq_id)
        request.sample_texts[event.seq_id] = self.fold.sequences[event.seq_id].text
        request.ended_in_step = event.step

    def _scheduled(self, event: ev.StepScheduled) -> None:
        request = self._request_of(event.seq_id)
        if event.kind == "prefill" and request.num_preemptions == 0:
            request.chunks.append(event.num_tokens)

    def _drafted(self, event: ev.DraftProposed) -> None:
        if event.source == "grammar":
            self.num_forced += len(event.token_ids)

    def _verified(self, event: ev.DraftVerified) -> None:
        share = next(item for item in self.fold.scheduled if item.seq_id == event.seq_id)
        self.drafts.setdefault(self._request_of(event.seq_id).name, []).append(
            (len(share.draft_token_ids), event.num_accepted)
        )

    def _step_end(self, event: ev.StepEnd) -> None:
        kinds = {item.kind for item in self.fold.scheduled}
        self.mixed_steps += len(kinds) == 2
        # A sample forked in this step counts as scheduled: its parent's turn gave it a token.
        scheduled = {item.seq_id for item in self.fold.scheduled} | self._forked_in_step
        self._forked_in_step = set()
        self.missed_turns += sum(seq_id not in scheduled for seq_id in self.fold.running)
        if self.fold.waiting:
            self.steps_with_waiting += 1
            self.slots_busy_while_waiting += len(self.fold.scheduled)
        self.seconds += event.t_schedule + event.t_prepare + event.t_model + event.t_sample


def _kind(form: Mapping[str, object]) -> str:
    kinds = get_args(StructuredOutputsKind)
    return next(kind for kind in kinds if form.get(kind) not in (None, False))


def _index(seq_id: str) -> int:
    return int(seq_id.rpartition(".")[2])


def _num_saved(usage: KVUsage) -> int:
    return usage.num_table_entries - usage.num_blocks_in_use


_NOTES = {
    ev.RequestArrived: RunFacts._arrived,
    ev.RequestAdmitted: RunFacts._admitted,
    ev.RequestResumed: RunFacts._resumed,
    ev.RequestPreempted: RunFacts._preempted,
    ev.RequestForked: RunFacts._forked,
    ev.RequestFinished: RunFacts._ended,
    ev.RequestAborted: RunFacts._ended,
    ev.BeamPruned: RunFacts._pruned,
    ev.BeamsFound: RunFacts._beams_found,
    ev.BlockCopied: RunFacts._copied,
    ev.BlockHit: RunFacts._hit,
    ev.BlockHashed: RunFacts._hashed,
    ev.StepScheduled: RunFacts._scheduled,
    ev.DraftProposed: RunFacts._drafted,
    ev.DraftVerified: RunFacts._verified,
    ev.StepEnd: RunFacts._step_end,
}
