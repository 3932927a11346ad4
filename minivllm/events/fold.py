"""`Fold`: the engine's state, derived from its events alone.

After every phase of a step, `fold.state == engine.inspect()`. Views read only a fold, so they can
show only what the engine has reported.

A small method applies each kind of event. A fold never guesses: if a part of the state could not be
derived, the event would need another field.
"""

from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from itertools import islice

import msgspec

from minivllm.events import types as ev
from minivllm.events.state import (
    EngineState,
    FinishedSequence,
    LoadState,
    RequestState,
    ScheduledState,
    SequenceGrammar,
    SequenceState,
)

HISTORY_LENGTH = 64
"""Number of finished sequences kept for display."""


class Fold:
    """Applies events in order. Its attributes are the live state; do not change them."""

    def __init__(self, header: ev.LogHeader, state: EngineState | None = None) -> None:
        """Start with an idle engine, or with `state` in the middle of a run.

        state: what `inspect()` returned between two steps; the fold keeps and changes this object
        """
        if state is None:
            state = EngineState.idle(header)
        # A seek restores tens of thousands of token ids. As int objects, they took most of the
        # seek's time.
        for request in state.requests.values():
            request.prompt_token_ids = array("I", request.prompt_token_ids)
        for sequence in state.sequences.values():
            sequence.output_token_ids = array("I", sequence.output_token_ids)
        self.header = header
        self.step = state.step
        self.budget = state.budget
        self.blocks = state.blocks
        # An ordered dict without values: a queue that can remove from the middle in O(1).
        self.free_queue: OrderedDict[int, None] = OrderedDict.fromkeys(state.free_queue)
        self.host_blocks, self.loads, self.leases = state.host_blocks, state.loads, state.leases
        self.host_queue: OrderedDict[int, None] = OrderedDict.fromkeys(state.host_queue)
        self.waiting = state.waiting
        self.running = state.running
        self.requests = state.requests
        self.sequences = state.sequences
        self.scheduled = state.scheduled
        self.max_num_seqs = state.max_num_seqs
        self.max_num_batched_tokens = state.max_num_batched_tokens
        self.counters = state.counters
        self.token_pieces = state.token_pieces
        """Text of each named token id. A fold of an earlier moment may have later names, too."""
        self.num_token_pieces = len(state.token_pieces)
        """How many token ids are named at this moment."""
        self.history: deque[FinishedSequence] = deque(maxlen=HISTORY_LENGTH)
        self.last_seq = -1
        """`seq` of the last applied event."""
        self.t = header.mono
        self.lost_events = 0
        """How many events are missing. After a gap, the fold applies no events any more."""

    @property
    def state(self) -> EngineState:
        """The same data as `LLMEngine.inspect()`. Do not modify it: the fold shares parts of it."""
        replace = msgspec.structs.replace
        return EngineState(
            step=self.step,
            blocks=self.blocks,
            free_queue=list(self.free_queue),
            waiting=self.waiting,
            running=self.running,
            requests={
                name: replace(request, prompt_token_ids=request.prompt_token_ids.tolist())
                for name, request in self.requests.items()
            },
            sequences={
                name: replace(sequence, output_token_ids=sequence.output_token_ids.tolist())
                for name, sequence in self.sequences.items()
            },
            budget=self.budget,
            scheduled=self.scheduled,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens,
            counters=self.counters,
            token_pieces=dict(islice(self.token_pieces.items(), self.num_token_pieces)),
            host_blocks=self.host_blocks,
            host_queue=list(self.host_queue),
            loads=self.loads,
            leases=self.leases,
        )

    def apply(self, event: ev.Event) -> None:
        if self.lost_events == 0:
            _APPLY[type(event)](self, event)
        self.last_seq = event.seq
        self.t = event.t

    # ---- requests ----

    def _arrived(self, event: ev.RequestArrived) -> None:
        self.requests[event.request_id] = RequestState(
            prompt_token_ids=array("I", event.prompt_token_ids),
            max_tokens=event.max_tokens,
            priority=event.priority,
            prompt=event.prompt,
            arrival_time=event.t,
            seq_ids=[event.seq_id],
            sampling=event.sampling,
        )
        self.sequences[event.seq_id] = SequenceState(
            event.request_id, "WAITING", len(event.prompt_token_ids), output_token_ids=array("I")
        )
        self.waiting.insert(event.position, event.seq_id)
        self.counters.prompt_tokens += len(event.prompt_token_ids)

    def _admitted(self, event: ev.RequestAdmitted) -> None:
        if self.header.enable_prefix_caching:
            self.counters.prefix_cache_queries += self.sequences[event.seq_id].num_tokens
            self.counters.prefix_cache_hits += event.num_cached_tokens
        self._enter_batch(event)

    def _resumed(self, event: ev.RequestResumed) -> None:
        self.counters.resumed_hit_tokens += event.num_cached_tokens
        self._enter_batch(event)

    def _enter_batch(self, event: ev.RequestAdmitted | ev.RequestResumed) -> None:
        sequence = self.sequences[event.seq_id]
        sequence.status = "RUNNING"
        sequence.slot = event.slot
        sequence.num_cached_tokens = event.num_cached_tokens
        sequence.num_computed_tokens = event.num_computed_tokens
        sequence.deferred = None
        self.waiting.remove(event.seq_id)
        self.running.append(event.seq_id)

    def _deferred(self, event: ev.RequestDeferred) -> None:
        self.sequences[event.seq_id].deferred = (event.reason, event.need, event.free)

    def _preempted(self, event: ev.RequestPreempted) -> None:
        sequence = self.sequences[event.seq_id]
        sequence.status = "PREEMPTED"
        sequence.slot = None
        sequence.num_computed_tokens = 0
        sequence.num_cached_tokens = 0
        sequence.num_preemptions += 1
        self.running.remove(event.seq_id)
        self.waiting.insert(event.position, event.seq_id)
        self.counters.num_preemptions += 1

    def _forked(self, event: ev.RequestForked) -> None:
        parent = self.sequences[event.parent]
        for block_id in parent.block_table:
            self.blocks[block_id].ref_cnt += 1
        # Copy the lists that parent and child change independently.
        self.sequences[event.seq_id] = msgspec.structs.replace(
            parent,
            slot=event.slot,
            block_table=list(parent.block_table),
            output_token_ids=parent.output_token_ids[:],
            num_preemptions=0,
        )
        self.running.insert(event.position, event.seq_id)
        self.requests[parent.request_id].seq_ids.append(event.seq_id)
        self.counters.forked_sequences += 1

    def _finished(self, event: ev.RequestFinished) -> None:
        if self._forget(event.seq_id, event.reason):
            self.counters.finished_requests += 1

    def _pruned(self, event: ev.BeamPruned) -> None:
        self._forget(event.seq_id, None)

    def _beams_found(self, event: ev.BeamsFound) -> None:
        self.sequences[event.seq_id].text = event.texts[0]

    def _aborted(self, event: ev.RequestAborted) -> None:
        if self._forget(event.seq_id, "abort"):
            self.counters.aborted_requests += 1

    def _forget(self, seq_id: str, reason: str | None) -> bool:
        """Remove a sequence; return whether it was the last sequence of its request.

        reason: how the sequence ended, for the history; None keeps the sequence out of the history
        """
        sequence = self.sequences.pop(seq_id)
        queue = self.running if sequence.status == "RUNNING" else self.waiting
        queue.remove(seq_id)
        request = self.requests[sequence.request_id]
        request.seq_ids.remove(seq_id)
        if reason is not None:
            name, prompt = sequence.request_id, request.prompt
            self.history.append(
                FinishedSequence(
                    seq_id, name, prompt, sequence.text, reason, sequence.num_tokens, self.step
                )
            )
        if not request.seq_ids:
            del self.requests[sequence.request_id]
        return not request.seq_ids

    # ---- steps ----

    def _step_begin(self, event: ev.StepBegin) -> None:
        self.step = event.step
        self.budget = event.budget
        self.scheduled = []

    def _scheduled(self, event: ev.StepScheduled) -> None:
        self.sequences[event.seq_id].num_computed_tokens = (
            event.num_computed_tokens + event.num_tokens
        )
        self.scheduled.append(
            ScheduledState(event.seq_id, event.num_tokens, event.kind, event.num_computed_tokens)
        )
        self.counters.scheduled_tokens += event.num_tokens

    def _withdrawn(self, event: ev.StepWithdrawn) -> None:
        share = self._share_of(event.seq_id)
        self.scheduled.remove(share)
        self.counters.scheduled_tokens -= share.num_tokens

    def _draft_proposed(self, event: ev.DraftProposed) -> None:
        share = self._share_of(event.seq_id)
        share.draft_token_ids = event.token_ids
        share.num_tokens += len(event.token_ids)
        self.sequences[event.seq_id].num_computed_tokens += len(event.token_ids)
        self.counters.scheduled_tokens += len(event.token_ids)

    def _draft_verified(self, event: ev.DraftVerified) -> None:
        share, counters = self._share_of(event.seq_id), self.counters
        share.num_accepted = event.num_accepted
        num_drafts = len(share.draft_token_ids)
        self.sequences[event.seq_id].num_computed_tokens -= num_drafts - event.num_accepted
        counters.spec_decode_num_drafts += 1
        counters.spec_decode_num_draft_tokens += num_drafts
        counters.spec_decode_num_accepted_tokens += event.num_accepted

    def _share_of(self, seq_id: str) -> ScheduledState:
        return next(share for share in self.scheduled if share.seq_id == seq_id)

    def _option_changed(self, event: ev.OptionChanged) -> None:
        match event.name:
            case "max_num_seqs":
                self.max_num_seqs = event.value
            case "max_num_batched_tokens":
                self.max_num_batched_tokens = event.value

    # ---- blocks ----

    def _allocated(self, event: ev.BlockAllocated) -> None:
        del self.free_queue[event.block_id]
        self.blocks[event.block_id].ref_cnt = 1
        self.sequences[event.seq_id].block_table.append(event.block_id)

    def _hit(self, event: ev.BlockHit) -> None:
        if event.was_free:
            del self.free_queue[event.block_id]
        self.blocks[event.block_id].ref_cnt += 1
        self.sequences[event.seq_id].block_table.append(event.block_id)

    def _copied(self, event: ev.BlockCopied) -> None:
        del self.free_queue[event.dst]
        self.blocks[event.dst].ref_cnt = 1
        self.blocks[event.src].ref_cnt -= 1
        self.sequences[event.seq_id].block_table[event.logical] = event.dst
        self.counters.copied_blocks += 1

    def _hashed(self, event: ev.BlockHashed) -> None:
        block = self.blocks[event.block_id]
        block.hash, block.parent = event.hash, event.parent

    def _released(self, event: ev.BlockReleased) -> None:
        self.blocks[event.block_id].ref_cnt -= 1
        self.sequences[event.seq_id].block_table.pop()

    def _freed(self, event: ev.BlockFreed) -> None:
        _ = self.blocks[event.block_id]  # raises for a block that the engine does not have
        self.free_queue[event.block_id] = None
        if event.position == "head":
            self.free_queue.move_to_end(event.block_id, last=False)

    def _evicted(self, event: ev.BlockEvicted) -> None:
        block = self.blocks[event.block_id]
        block.hash = block.parent = None
        self.counters.evicted_blocks += 1

    # ---- the second memory ----

    def _stored(self, event: ev.KVStore) -> None:
        block = self.host_blocks[event.host_block]
        block.hash, block.parent = event.hash, event.parent
        self.host_queue.move_to_end(event.host_block)
        self.counters.stored_blocks += 1

    def _lost(self, event: ev.KVLost) -> None:
        block = self.host_blocks[event.host_block]
        block.hash = block.parent = None
        self.counters.lost_blocks += 1

    def _load(self, event: ev.KVLoad) -> None:
        sequence = self.sequences[event.seq_id]
        sequence.status, sequence.slot = "WAITING_FOR_REMOTE_KVS", event.slot
        self.loads[event.seq_id] = LoadState(event.block_ids, event.host_blocks, event.source)
        for host_block in event.host_blocks:
            self.host_blocks[host_block].ref_cnt += 1
            self.host_queue.pop(host_block, None)

    def _loaded(self, event: ev.KVLoaded) -> None:
        self.counters.external_prefix_cache_hits += event.num_tokens
        for host_block in reversed(self.loads.pop(event.seq_id).host_blocks):
            block = self.host_blocks[host_block]
            block.ref_cnt -= 1
            if not block.ref_cnt:
                self.host_queue[host_block] = None
                if block.hash is None:
                    self.host_queue.move_to_end(host_block, last=False)

    def _lease(self, event: ev.KVLease) -> None:
        self.leases[event.lease] = event.block_ids
        for block_id in event.block_ids:
            self.blocks[block_id].ref_cnt += 1

    def _lease_ended(self, event: ev.KVReleased) -> None:
        for block_id in self.leases.pop(event.lease):
            self.blocks[block_id].ref_cnt -= 1

    # ---- tokens and the log ----

    def _sampled(self, event: ev.TokenSampled) -> None:
        sequence = self.sequences[event.seq_id]
        sequence.output_token_ids.append(event.token_id)
        sequence.text += event.text
        self.counters.generation_tokens += 1

    def _grammar(self, event: ev.GrammarState) -> None:
        fields = (getattr(event, name) for name in SequenceGrammar.__struct_fields__)
        self.sequences[event.seq_id].grammar = SequenceGrammar(*fields)

    def _named(self, event: ev.TokensNamed) -> None:
        self.token_pieces.update(event.pieces)
        self.num_token_pieces += len(event.pieces)

    def _text_flushed(self, event: ev.TextFlushed) -> None:
        self.sequences[event.seq_id].text += event.text

    def _violated(self, event: ev.InvariantViolated) -> None:
        self.counters.invariant_violations += 1

    def _gap(self, event: ev.Gap) -> None:
        self.lost_events += event.lost

    def _nothing(self, event: ev.Event) -> None:
        """Ignore a kind that changes no state."""


_APPLY: dict[type[ev.Event], Callable] = {
    ev.RequestArrived: Fold._arrived,
    ev.RequestAdmitted: Fold._admitted,
    ev.RequestResumed: Fold._resumed,
    ev.RequestDeferred: Fold._deferred,
    ev.RequestPreempted: Fold._preempted,
    ev.RequestForked: Fold._forked,
    ev.RequestFinished: Fold._finished,
    ev.BeamPruned: Fold._pruned,
    ev.BeamsFound: Fold._beams_found,
    ev.RequestAborted: Fold._aborted,
    ev.StepBegin: Fold._step_begin,
    ev.StepScheduled: Fold._scheduled,
    ev.StepWithdrawn: Fold._withdrawn,
    ev.DraftProposed: Fold._draft_proposed,
    ev.DraftVerified: Fold._draft_verified,
    ev.BlockAllocated: Fold._allocated,
    ev.BlockHashed: Fold._hashed,
    ev.BlockHit: Fold._hit,
    ev.BlockCopied: Fold._copied,
    ev.BlockReleased: Fold._released,
    ev.BlockFreed: Fold._freed,
    ev.BlockEvicted: Fold._evicted,
    ev.KVStore: Fold._stored,
    ev.KVLost: Fold._lost,
    ev.KVLoad: Fold._load,
    ev.KVLoaded: Fold._loaded,
    ev.KVLease: Fold._lease,
    ev.KVReleased: Fold._lease_ended,
    ev.OptionChanged: Fold._option_changed,
    ev.GrammarState: Fold._grammar,
    ev.TokensNamed: Fold._named,
    ev.TokenSampled: Fold._sampled,
    ev.TextFlushed: Fold._text_flushed,
    ev.InvariantViolated: Fold._violated,
    ev.Gap: Fold._gap,
    **dict.fromkeys(
        (
            ev.StepEnd,
            ev.BlockMissed,
            ev.AttentionMass,
            ev.TokenAttention,
            ev.ExpertsRouted,
            ev.KernelTraced,
            ev.TokenExplained,
        ),
        Fold._nothing,
    ),
}


def fold(header: ev.LogHeader, events: Iterable[ev.Event]) -> Fold:
    """Apply all `events` to an idle engine, and return the fold."""
    result = Fold(header)
    for event in events:
        result.apply(event)
    return result
