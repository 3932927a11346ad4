"""`Scheduler`: decides how many tokens of each sequence go through the model in each step.

There is no prefill phase and no decode phase. A sequence has `num_tokens` (prompt and output) and
`num_computed_tokens` (tokens whose keys and values are in the cache, or will be after the planned
step). Each step computes tokens so that the second number catches up with the first:

    a new prompt of 40 tokens      40 behind    prefill, in chunks if the budget is small
    a decoding sequence             1 behind    its newest token
    a preempted sequence          all behind    recomputation, less what the prefix cache kept

A step schedules running sequences first, in order of admission, then waiting sequences. When there
are too few free blocks, it preempts victims that the policy chooses, and then admits no sequence. A
victim keeps its tokens and loses its blocks. If the first waiting sequence does not fit, all
sequences behind it wait too, so that large requests cannot starve.

Scheduling changes *when* a token is computed, never *which* token it is.

Source: vLLM `vllm/v1/core/sched/scheduler.py` (`schedule`, `_preempt_request`).
"""

from __future__ import annotations

from typing import Any

from minivllm.config import EngineConfig
from minivllm.core.admission import (
    AdmissionPolicy,
    BatchSlots,
    Hold,
    RequestQueue,
    create_request_queue,
)
from minivllm.core.kv_cache_manager import ComputedBlocks, KVCacheManager, Shortage
from minivllm.core.request import Request, RequestStatus, Sequence
from minivllm.core.scheduler_output import (
    NO_DRAFTS,
    Drafter,
    ScheduledDrafts,
    ScheduledSequence,
    SchedulerOutput,
)
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.events.state import Counters


class Scheduler:
    """Owns all unfinished requests and their sequences."""

    def __init__(
        self,
        config: EngineConfig,
        kv_cache_manager: KVCacheManager,
        max_model_len: int,
        bus: EventBus,
        drafter: Drafter = NO_DRAFTS,
        waiting: RequestQueue | None = None,
    ) -> None:
        """drafter: made for the same manager, `max_model_len` and bus
        waiting: an empty queue with a policy of its own; None makes one for `scheduling_policy`
        """
        self.kv_cache_manager = kv_cache_manager
        self.waiting = (
            create_request_queue(config.scheduling_policy) if waiting is None else waiting
        )
        self.running: list[Sequence] = []
        self.requests: dict[str, Request] = {}
        self.max_num_batched_tokens = config.max_num_batched_tokens
        self.max_model_len = max_model_len
        self.enable_chunked_prefill = config.enable_chunked_prefill
        self.counters = Counters()
        self.step = 0
        self.slots = BatchSlots(config.max_num_seqs)
        self._admission = AdmissionPolicy(
            config.batching, config.batch_delay, config.batch_size or config.max_num_seqs
        )
        self._bus, self._drafter = bus, drafter
        self.connector: Any = None
        """A second memory for blocks (`kv_transfer.connector.KVConnector`), set by the engine."""

    # ---- requests in and out ----

    def add_request(self, request: Request) -> None:
        """Queue a request that has passed `admission.refuse_if_too_large`."""
        sequence = request.sequences[0]
        position = self.waiting.add(sequence)
        self.requests[request.request_id] = request
        self.counters.prompt_tokens += sequence.num_prompt_tokens
        if self._bus.active:
            tokens, params = list(request.prompt_token_ids), request.params
            seen = (position, tokens, params.max_tokens, request.priority, request.prompt, params.n)
            ids, sampling = (request.request_id, sequence.seq_id), ev.RequestSampling.of(params)
            # Use the event's own timestamp, so that a replay sees the same arrival time.
            request.arrival_time = self._bus.emit(ev.RequestArrived, *ids, *seen, sampling)
        else:
            request.arrival_time = self._bus.now()
        if request.awaits_grammar:
            self._defer(sequence, "grammar_not_compiled", 0, 0)

    def finish(
        self, sequence: Sequence, status: RequestStatus, stop_reason: int | str | None = None
    ) -> None:
        """End a sequence and release its blocks and slot. Every sequence leaves through here."""
        pruned = status is RequestStatus.FINISHED_PRUNED
        aborted = status is RequestStatus.FINISHED_ABORTED
        request = sequence.request
        if sequence.status is RequestStatus.RUNNING:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)
        if sequence.slot is not None:
            self.slots.release(sequence, for_fork=pruned)
        sequence.status = status
        if self.connector is not None:
            self.connector.request_finished(sequence)
        self.kv_cache_manager.free(sequence)
        sequence.stop_reason = stop_reason
        if pruned:
            request.sequences.remove(sequence)  # a beam search prunes hundreds of sequences
        self._drafter.forget(sequence)
        if request.is_finished:
            del self.requests[request.request_id]
            self.counters.aborted_requests += aborted
            self.counters.finished_requests += not aborted
        if self._bus.active:
            if aborted or pruned:
                kind = ev.RequestAborted if aborted else ev.BeamPruned
                self._bus.emit(kind, sequence.seq_id, stop_reason)
            else:
                why = (status.finish_reason, stop_reason)
                self._bus.emit(ev.RequestFinished, sequence.seq_id, *why)

    # ---- one step ----

    def schedule(self, now: float) -> SchedulerOutput:
        """Plan the next step and count its tokens as computed.

        now: seconds, on the same clock as `arrival_time`; only `batch_delay` uses it.
        """
        self.step += 1
        self._bus.step = self.step
        if self._bus.active:
            self._bus.emit(ev.StepBegin, self.max_num_batched_tokens)
        plan = SchedulerOutput(self.step, self.max_num_batched_tokens)
        if self.connector is not None:
            self.connector.begin_step()
        budget = self._spend_budget(plan, now)
        # Admission stops where a load begins, and then goes on with those behind it.
        while self.connector is not None and self.connector.has_begun():
            budget = self._schedule_waiting(plan, budget, now)
        if self.running and not plan.scheduled and not plan.preempted:
            self._end_standstill(plan)
        budget = self._drafter.add_drafts(plan, budget)
        plan.copies = self.kv_cache_manager.take_copies()
        plan.total_num_scheduled_tokens = plan.budget - budget
        self.counters.scheduled_tokens += plan.total_num_scheduled_tokens
        return plan

    def _spend_budget(self, plan: SchedulerOutput, now: float) -> int:
        """Plan the running sequences; if there were enough blocks, also admit waiting sequences.

        Returns the unused budget, in tokens.
        """
        budget, shortage = self._schedule_running(plan)
        # With `priority`, a victim may already be in the plan. It is then withdrawn, and its blocks
        # are never written. So register hashes only after all preemptions: there are none later.
        for item in plan.scheduled:
            self._commit(item)
        if shortage is None:
            budget = self._schedule_waiting(plan, budget, now)
        else:  # at least the victim waits
            self._defer(self.waiting.peek(), "preempted_this_step", shortage.need, shortage.free)
        return budget

    def _schedule_running(self, plan: SchedulerOutput) -> tuple[int, Shortage | None]:
        """Give tokens to the running sequences.

        Returns the unused budget and the last shortage of blocks, if any.
        """
        budget, last_shortage = plan.budget, None
        block_size = self.kv_cache_manager.block_size
        for sequence in list(self.running):
            if budget == 0:
                break
            start = sequence.num_computed_tokens
            num_tokens = min(sequence.num_tokens - start, budget)
            # Skip a beam that waits for a preempted sibling, and a victim of this loop. Without a
            # shortage there is none: reading each status would take a tenth of the planning.
            if num_tokens == 0 or (last_shortage and sequence.status is RequestStatus.PREEMPTED):
                continue
            # In the common case, the last block has room and only one owner: skip the manager.
            table = sequence.block_table
            lacks_block = (
                start + num_tokens > len(table) * block_size
                or table[start // block_size].ref_cnt > 1
            )
            if lacks_block and (shortage := self._make_room(plan, sequence, start + num_tokens)):
                last_shortage = shortage
                # Victims have left this step's plan if they were in it: their tokens are available.
                budget = plan.budget - sum(item.num_tokens for item in plan.scheduled)
                if sequence.status is RequestStatus.PREEMPTED:
                    continue
            plan.scheduled.append(ScheduledSequence(sequence, start, num_tokens))
            budget -= num_tokens
        return budget, last_shortage

    def _schedule_waiting(self, plan: SchedulerOutput, budget: int, now: float) -> int:
        """Admit waiting sequences while budget, slots and blocks last; return the unused budget."""
        if self.connector is not None:
            budget = self._schedule_loaded(plan, budget)
        while self.waiting:
            sequence = self.waiting.peek()
            if hold := self._hold(sequence, plan, budget, now):
                self._defer(sequence, *hold)
                break
            item = self._try_to_admit(sequence, budget)
            if item is None:
                break
            plan.scheduled.append(item)
            self._commit(item)
            budget -= item.num_tokens
        return budget

    def _schedule_loaded(self, plan: SchedulerOutput, budget: int) -> int:
        """Admit sequences that have loaded, wherever they are in the queue: they have slots and
        blocks, and need only budget. Returns the unused budget.
        """
        for sequence, num_cached in list(self.connector.loaded.items()):
            start = min(num_cached, sequence.num_tokens - 1)
            if num_tokens := self._first_chunk(sequence, start, budget):
                del self.connector.loaded[sequence]
                # Give back what the first chunk does not need, as after any admission.
                self.kv_cache_manager.shrink(sequence, max(start + num_tokens, num_cached))
                self.waiting.remove(sequence)
                self._admit(sequence, num_cached, start)
                item = ScheduledSequence(sequence, start, num_tokens, starts_fresh=True)
                plan.scheduled.append(item)
                self._commit(item)
                budget -= num_tokens
        return budget

    def _hold(
        self, sequence: Sequence, plan: SchedulerOutput, budget: int, now: float
    ) -> Hold | None:
        """Return why the first waiting sequence may not be admitted, apart from memory, or None."""
        if hold := self._admission.hold(self.waiting, self.running, not plan.scheduled, now):
            return hold
        if budget == 0:
            return Hold("token_budget", sequence.num_tokens, 0)
        num_slots = self.slots.num_needed(sequence.request)
        if self.slots.num_free < num_slots:
            self._admission.batch_is_full()
            return Hold("max_num_seqs", num_slots, self.slots.num_free)
        return None

    def _try_to_admit(self, sequence: Sequence, budget: int) -> ScheduledSequence | None:
        """Give the first waiting sequence blocks, a slot and a first chunk.

        If the sequence does not fit, or begins to load, emits the reason and returns None.
        """
        manager = self.kv_cache_manager
        computed = manager.get_computed_blocks(sequence)  # a hit makes the first chunk shorter
        # Forks will share a partial last block, and all but one of its owners will copy it.
        num_copies = (
            sequence.request.num_unforked if sequence.num_tokens % manager.block_size else 0
        )
        # Require room for all known tokens, not only for the first chunk. With less room, a long
        # prompt would soon preempt other sequences, or be preempted itself, again and again.
        if shortage := manager.shortage_for(sequence, sequence.num_tokens, computed, num_copies):
            self._defer(sequence, shortage.reason, shortage.need, shortage.free)
            self._admission.batch_is_full()
            return None
        if self.connector is not None and self._begin_load(sequence, computed):
            return None
        start = computed.num_computed_tokens
        num_tokens = self._first_chunk(sequence, start, budget)
        if num_tokens == 0:
            self._defer(sequence, "token_budget", sequence.num_tokens - start, budget)
            return None
        manager.allocate_slots(sequence, start + num_tokens, computed)  # fits: checked above
        if self._bus.active:
            manager.explain_miss(sequence, computed)
        self.waiting.pop()
        self._admit(sequence, computed.num_cached_tokens, start)
        return ScheduledSequence(sequence, start, num_tokens, starts_fresh=True)

    def _begin_load(self, sequence: Sequence, computed: ComputedBlocks) -> bool:
        """Let the connector load the blocks after the hits, if it can. The sequence gets a slot and
        blocks for all of its tokens now, so that it can run when the load has ended.
        """
        manager = self.kv_cache_manager
        num_tokens = self.connector.get_num_new_matched_tokens(sequence, computed.num_cached_tokens)
        if num_tokens:
            manager.allocate_slots(sequence, sequence.num_tokens, computed)
            self.slots.take(sequence)
            sequence.status = RequestStatus.WAITING_FOR_REMOTE_KVS
            self.connector.update_state_after_alloc(sequence, num_tokens)
            self._defer(sequence, "waiting_for_remote_kvs", num_tokens // manager.block_size, 0)
        return num_tokens > 0

    def _first_chunk(self, sequence: Sequence, start: int, budget: int) -> int:
        """Return how many tokens the sequence gets in its first chunk; 0 if it must wait.

        start: the number of its tokens that are already computed.
        """
        num_missing = sequence.num_tokens - start
        return (
            min(num_missing, budget) if self.enable_chunked_prefill or num_missing <= budget else 0
        )

    def _admit(self, sequence: Sequence, num_cached_tokens: int, num_computed_tokens: int) -> None:
        resumed = sequence.num_preemptions > 0
        sequence.status = RequestStatus.RUNNING
        sequence.num_cached_tokens = num_cached_tokens
        sequence.num_computed_tokens = num_computed_tokens
        if sequence.slot is None:
            self.slots.take(sequence)
        sequence.deferred = None
        self.running.append(sequence)
        # Count each request once in the hit rate, however often it is deferred or preempted.
        if resumed:
            self.counters.resumed_hit_tokens += num_cached_tokens
        elif self.kv_cache_manager.enable_prefix_caching:
            sequence.request.num_cached_tokens = num_cached_tokens
            self.counters.prefix_cache_queries += sequence.num_tokens
            self.counters.prefix_cache_hits += num_cached_tokens
        if self._bus.active:
            kind = ev.RequestResumed if resumed else ev.RequestAdmitted
            tokens = (num_cached_tokens, num_computed_tokens)
            self._bus.emit(kind, sequence.seq_id, sequence.slot, *tokens)

    def _commit(self, item: ScheduledSequence) -> None:
        """Count the item's tokens, let others share the blocks that they fill, and fork samples."""
        self._advance(item)
        sequence = item.sequence
        self.kv_cache_manager.cache_full_blocks(sequence, sequence.num_computed_tokens)
        num_unforked = sequence.request.num_unforked
        if item.sampling and num_unforked and not sequence.request.params.use_beam_search:
            # The prompt is complete: fork the sequence once for each further sample.
            item.sampling += [self.fork(sequence) for _ in range(num_unforked)]

    def _advance(self, item: ScheduledSequence) -> None:
        """Count the item's tokens as computed. The last known one predicts the next: it samples."""
        sequence = item.sequence
        if item.num_tokens == 1 and item.start >= sequence.num_prompt_tokens:
            item.kind = "decode"
        if self._bus.active:
            self._bus.emit(
                ev.StepScheduled, sequence.seq_id, item.num_tokens, item.kind, item.start
            )
        sequence.num_computed_tokens = item.start + item.num_tokens
        if sequence.num_computed_tokens == sequence.num_tokens:
            item.sampling.append(sequence)

    def settle_draft(self, item: ScheduledDrafts, num_accepted: int, token_id: int) -> None:
        """Roll all but `num_accepted` drafts of `item` back; the model's own token follows them."""
        self._drafter.settle(item, num_accepted, token_id)
        self.counters.spec_decode_num_drafts += 1
        self.counters.spec_decode_num_draft_tokens += len(item.draft_token_ids)
        self.counters.spec_decode_num_accepted_tokens += num_accepted

    # ---- preemption ----

    def _make_room(
        self, plan: SchedulerOutput, sequence: Sequence, num_tokens: int
    ) -> Shortage | None:
        """Preempt victims until a running sequence has blocks for its first `num_tokens` tokens.

        The last victim may be `sequence` itself. Returns the last shortage, even if there is room
        now: it says that there were victims.
        """
        last_shortage = None
        while sequence.status is RequestStatus.RUNNING and (
            shortage := self.kv_cache_manager.allocate_slots(sequence, num_tokens)
        ):
            last_shortage = shortage
            victim = self.waiting.choose_victim(self.running)
            plan.withdraw(victim)
            self._preempt(victim, sequence, shortage)
            plan.preempted.append(victim)
        return last_shortage

    def _end_standstill(self, plan: SchedulerOutput) -> None:
        """Break a deadlock: all running sequences are beams that wait for a preempted sibling, which
        does not fit. Preempt one more victim.
        """
        first = self.waiting.peek()
        reason, need, free = first.deferred
        loads = self.connector is not None and (self.connector.loads or self.connector.loaded)
        if reason != "batch_delay" and not loads:  # a delay and a load end by themselves
            if reason == "max_num_seqs":  # then `need` and `free` count slots, not blocks
                manager = self.kv_cache_manager
                need = manager.num_blocks_for(first.num_tokens)
                free = manager.pool.num_free_blocks
            # By arrival: a load or a grammar may have let younger sequences run first.
            by_arrival = sorted(self.running, key=lambda other: other.request.arrival_number)
            victim = self.waiting.choose_victim(by_arrival)
            self._preempt(victim, first, Shortage(need, free))
            plan.preempted.append(victim)

    def requeue(self, stranded: Sequence, culprit: Sequence) -> None:
        """Preempt `stranded`, which shares blocks that `culprit` failed to write."""
        self._preempt(stranded, culprit, Shortage(0, self.kv_cache_manager.pool.num_free_blocks))
        self._drafter.forget(stranded)

    def _preempt(self, victim: Sequence, victim_of: Sequence, shortage: Shortage) -> None:
        """Take blocks and slot from a running sequence. It waits, and is recomputed later."""
        self.kv_cache_manager.free(victim)
        self.running.remove(victim)
        self.slots.release(victim)
        victim.status = RequestStatus.PREEMPTED
        victim.num_computed_tokens = 0
        victim.num_cached_tokens = 0
        position = self.waiting.add_preempted(victim)
        victim.num_preemptions += 1
        self.counters.num_preemptions += 1
        if self._bus.active:
            who = (victim.seq_id, victim_of.seq_id)
            self._bus.emit(ev.RequestPreempted, *who, shortage.need, shortage.free, position)

    # ---- forks ----

    def fork(self, parent: Sequence) -> Sequence:
        """Make a running sibling that shares all blocks of `parent`, in a slot kept for it."""
        child = parent.fork()
        child.status = RequestStatus.RUNNING
        self.slots.take_for_fork(child)
        self.kv_cache_manager.fork(parent, child)
        # Insert the child after its siblings, so that the batch stays in order of admission.
        siblings = [i for i, other in enumerate(self.running) if other.request is parent.request]
        position = siblings[-1] + 1
        self.running.insert(position, child)
        self.counters.forked_sequences += 1
        if self._bus.active:
            self._bus.emit(ev.RequestForked, child.seq_id, parent.seq_id, child.slot, position)
        return child

    def _defer(self, sequence: Sequence, reason: ev.DeferReason, need: int, free: int) -> None:
        sequence.deferred = (reason, need, free)
        if self._bus.active:
            self._bus.emit(ev.RequestDeferred, sequence.seq_id, reason, need, free)
