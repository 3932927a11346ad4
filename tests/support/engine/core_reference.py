"""`ReferenceCore`: a slow, plain copy of the core. It predicts every event of the scheduler.

Its inputs are the engine's inputs: arrivals, sampled tokens, aborts, options, and the choices of a
beam search. From these it computes the plan, the block of each token, the preemptions, and why the
first sequence waits. Each prediction is compared with the engine's event, field by field.

Everything is simple: the free queue is a list, owners are counted in the block tables, and a
block's name is its full token prefix. This file is the scheduler; `core_reference_memory` is the
memory.
"""

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from minivllm.config import EngineConfig
from minivllm.core.request import Request
from minivllm.events import types as ev
from minivllm.events.types import Event
from support.engine.core_reference_memory import Asked, Plain, PlainMemory

GIVEN = (
    ev.StepBegin, ev.StepEnd, ev.RequestArrived, ev.TokensNamed, ev.TokenSampled, ev.TextFlushed,
    ev.OptionChanged, ev.RequestAborted, ev.BeamPruned, ev.BeamsFound, ev.AttentionMass,
    ev.TokenAttention, ev.ExpertsRouted, ev.KernelTraced, ev.TokenExplained, ev.InvariantViolated, ev.DraftProposed,
    ev.DraftVerified,
)  # fmt: skip


class ReferenceCore:
    """Runs beside one engine: `hear` every event, `check` at the end of each phase."""

    def __init__(
        self, config: EngineConfig, num_blocks: int, max_model_len: int, eos: frozenset[int]
    ) -> None:
        self.config, self.max_model_len, self.eos = config, max_model_len, eos
        self.memory = PlainMemory(config, num_blocks, max_model_len)
        self.waiting: list[Plain] = []
        self.running: list[Plain] = []
        self.sequences: dict[str, Plain] = {}
        self.free_slots = set(range(config.max_num_seqs))
        self.budget, self.max_num_seqs = config.max_num_batched_tokens, config.max_num_seqs
        self.let_in: set[int] = set()
        self.step = 0
        self.plan: list[list] = []
        """(sequence, first position, number of tokens, whether it was admitted in this step)"""
        self.sampling: dict[str, list[str]] = {}
        self.preempted: list[str] = []
        self._heard: list[tuple[Event, Request | None]] = []
        self._out: list[tuple] = self.memory.out
        self._somebody_failed = False

    # ---- listening ----

    def hear(self, event: Event, requests: dict[str, Request]) -> None:
        request = requests[event.request_id] if type(event) is ev.RequestArrived else None
        self._heard.append((event, request))

    def check(self) -> None:
        """Compare all events since the last check with the predicted ones."""
        heard, self._heard = self._heard, []
        at = 0
        while at < len(heard):
            given = next(
                (i for i in range(at, len(heard)) if self._is_given(heard[i][0], i == at)), None
            )
            assert given is not None, f"unexpected event: {heard[at][0]}"
            self._out.clear()
            self._react(*heard[given])
            for number, expected in enumerate(self._out, at):
                got = heard[number][0] if number < len(heard) else None
                assert got is not None and told(got) == expected, (
                    f"the reference expects {expected}, the engine says {got}"
                )
                assert got.step == self.step, f"{got} belongs to step {self.step}"
            at += len(self._out)

    def _is_given(self, event: Event, is_next: bool) -> bool:
        match event:
            case ev.RequestForked():
                return self._searches(event.parent)
            case ev.RequestFinished():
                return self._searches(event.seq_id) or bool(
                    self.sequences[event.seq_id].asked.given.params.stop
                )
            case ev.RequestPreempted():  # recomputation, because a batch-mate failed
                return event.need == 0
            case ev.BlockEvicted():  # blocks written by a failed request
                return is_next and self._somebody_failed
        return isinstance(event, GIVEN)

    def _searches(self, seq_id: str) -> bool:
        return self.sequences[seq_id].asked.given.params.use_beam_search

    def _react(self, event: Event, request: Request | None) -> object:
        """Predict all that follows from what is given, in `_out`."""
        match event:
            case ev.StepBegin():
                return self._schedule(event.t)
            case ev.StepEnd():
                used = sum(item[2] for item in self.plan)
                return self._tell(ev.StepEnd, used, *told(event)[2:])
            case ev.RequestArrived():
                return self._arrive(request)
            case ev.DraftProposed():
                return self._draft(self.sequences[event.seq_id], event)
            case ev.DraftVerified():
                return self._verify(self.sequences[event.seq_id], event)
            case ev.RequestForked():
                return self._fork(self.sequences[event.parent])
            case ev.RequestPreempted():
                victim = self.sequences[event.seq_id]
                return self._preempt(victim, event.victim_of, 0, len(self.memory.free))
            case ev.BlockEvicted():
                return self.memory.forget(event.block_id)
            case ev.OptionChanged(name="max_num_seqs"):
                self.max_num_seqs = event.value
            case ev.OptionChanged(name="max_num_batched_tokens"):
                self.budget = event.value
            case ev.RequestAborted() | ev.RequestFinished() | ev.BeamPruned():
                self._leave(self.sequences[event.seq_id], is_pruned=type(event) is ev.BeamPruned)
                self._somebody_failed |= bool(getattr(event, "error", None))
        self._tell(*told(event))
        if type(event) is ev.TokenSampled:
            self._append(self.sequences[event.seq_id], event.token_id)
        return None

    def _tell(self, kind: type[Event], *fields: object) -> None:
        self._out.append((kind, *fields))

    # ---- requests in and out ----

    def _arrive(self, request: Request) -> None:
        params = request.params
        asked = Asked(request.request_id, request, params.num_sequences - 1)
        name, tokens = f"{request.request_id}.0", list(request.prompt_token_ids)
        first = Plain(name, request.cache_salt, tokens, asked=asked)
        first.computes_all = params.prompt_logprobs is not None
        asked.sequences.append(first)
        self.sequences[first.name] = first
        position = self._queue(first, at_head=False)
        self._tell(
            ev.RequestArrived, request.request_id, first.name, position, first.tokens[:],
            params.max_tokens, request.priority, request.prompt, params.n,
            ev.RequestSampling.of(params),
        )  # fmt: skip

    def _queue(self, sequence: Plain, at_head: bool) -> int:
        if self.config.scheduling_policy == "priority":
            self.waiting.append(sequence)
            self.waiting.sort(key=lambda sequence: sequence.rank)
        else:
            self.waiting.insert(0 if at_head else len(self.waiting), sequence)
        return self.waiting.index(sequence)

    def _end_if_it_must(self, sequence: Plain) -> None:
        params = sequence.asked.given.params
        if params.use_beam_search or params.stop:
            return
        output = sequence.tokens[len(sequence.asked.given.prompt_token_ids) :]
        last, may_stop = output[-1], len(output) >= params.min_tokens
        if may_stop and last in self.eos and not params.ignore_eos:
            end = ("stop", None)
        elif may_stop and last in params.stop_token_ids:
            end = ("stop", last)
        elif len(output) == params.max_tokens or len(sequence.tokens) == self.max_model_len:
            end = ("length", None)
        else:
            return
        self._leave(sequence)
        self._tell(ev.RequestFinished, sequence.name, *end)

    # ---- drafts ----

    def _draft(self, sequence: Plain, event: ev.DraftProposed) -> None:
        """A decode of the plan may compute drafts within the budget, in free blocks."""
        (item,) = (item for item in self.plan if item[0] is sequence)
        num_drafts, end = len(event.token_ids), sequence.num_computed + len(event.token_ids)
        assert item[1] >= len(sequence.asked.given.prompt_token_ids) and item[2] == 1
        assert self.sampling[sequence.name] == [sequence.name] and 1 <= num_drafts <= self._left()
        assert self.memory.lacks(sequence, end) is None and end < self.max_model_len
        self._tell(*told(event))
        self.memory.extend(sequence, end)
        sequence.num_computed, item[2], sequence.drafts = end, 1 + num_drafts, event.token_ids[:]

    def _verify(self, sequence: Plain, event: ev.DraftVerified) -> None:
        """Forget the rejected drafts and give their block back."""
        sequence.num_computed -= len(sequence.drafts) - event.num_accepted
        if event.num_accepted < len(sequence.drafts):
            assert sequence.drafts[event.num_accepted] != event.token_id
        del sequence.drafts[event.num_accepted :]
        self._tell(*told(event))
        self.memory.shrink(sequence)

    def _append(self, sequence: Plain, token_id: int) -> None:
        sequence.tokens.append(token_id)
        assert not sequence.drafts or token_id == sequence.drafts.pop(0)
        self._end_if_it_must(sequence)

    def _leave(self, sequence: Plain, is_pruned: bool = False) -> None:
        if sequence.state == "running":
            self.running.remove(sequence)
            self._give_slot_back(sequence, is_pruned)
        else:
            self.waiting.remove(sequence)
        self.memory.release(sequence)
        sequence.state = "ended"
        sequence.asked.sequences.remove(sequence)

    def _give_slot_back(self, sequence: Plain, to_a_fork: bool = False) -> None:
        asked = sequence.asked
        (asked.kept_slots if to_a_fork else self.free_slots).add(sequence.slot)
        asked.num_to_fork += to_a_fork
        sequence.slot = None
        if all(sequence.slot is None for sequence in asked.sequences):
            self.free_slots |= asked.kept_slots
            asked.kept_slots = set()

    def _preempt(self, victim: Plain, victim_of: str, need: int, free: int) -> None:
        self.preempted.append(victim.name)
        self.memory.release(victim)
        self.running.remove(victim)
        self._give_slot_back(victim)
        victim.state, victim.num_computed, victim.num_cached = "preempted", 0, 0
        position = self._queue(victim, at_head=True)
        self._tell(ev.RequestPreempted, victim.name, victim_of, need, free, position)

    def _fork(self, parent: Plain) -> Plain:
        asked = parent.asked
        child = replace(
            parent, name=f"{asked.name}.{asked.next_index}", index=asked.next_index, drafts=[],
            tokens=parent.tokens[:], table=parent.table[:], slot=min(asked.kept_slots),
        )  # fmt: skip
        child.computes_all = False
        asked.next_index += 1
        asked.num_to_fork -= 1
        asked.kept_slots.remove(child.slot)
        asked.sequences.append(child)
        self.sequences[child.name] = child
        self.memory.join(child)
        last_sibling = [sequence for sequence in self.running if sequence.asked is asked][-1]
        self.running.insert(self.running.index(last_sibling) + 1, child)
        self._tell(ev.RequestForked, child.name, parent.name, child.slot, self.running.index(child))
        return child

    # ---- one step ----

    def _schedule(self, now: float) -> None:
        self.step += 1
        self.plan, self.sampling, self.preempted, self._somebody_failed = [], {}, [], False
        self.memory.copies = {}
        self._tell(ev.StepBegin, self.budget)
        shortage = somebody_went = None
        for sequence in list(self.running):
            if sequence.state != "running" or not self._left():
                continue
            num_tokens = min(len(sequence.tokens) - sequence.num_computed, self._left())
            while sequence.state == "running" and num_tokens:
                missing = self.memory.lacks(sequence, sequence.num_computed + num_tokens)
                if missing is None:
                    self.memory.extend(sequence, sequence.num_computed + num_tokens)
                    self.plan.append([sequence, sequence.num_computed, num_tokens, False])
                    break
                shortage, somebody_went = missing, True
                victim = self._victim()
                self.plan = [item for item in self.plan if item[0] is not victim]
                self._preempt(victim, sequence.name, *shortage)
        for item in self.plan:
            self._commit(*item)
        if shortage is None:
            while self.waiting and self._admits(self.waiting[0], now):
                pass
        elif self.waiting:
            self._defer("preempted_this_step", *shortage)
        # Only beams that wait for a preempted sibling are left, and the head of the queue does not
        # fit. Preempt one more victim.
        is_stuck = self.running and not self.plan and not somebody_went
        if is_stuck and self.waiting[0].why_deferred[0] != "batch_delay":
            first = self.waiting[0]
            reason, *shortage = first.why_deferred
            if reason == "max_num_seqs":
                shortage = self.memory.blocks_for(len(first.tokens)), len(self.memory.free)
            self._preempt(self._victim(), first.name, *shortage)

    def _left(self) -> int:
        return self.budget - sum(item[2] for item in self.plan)

    def _victim(self) -> Plain:
        if self.config.scheduling_policy == "priority":
            return max(self.running, key=lambda sequence: sequence.rank)
        return self.running[-1]

    def _defer(self, reason: str, need: int, free: int) -> bool:
        self.waiting[0].why_deferred = (reason, need, free)
        self._tell(ev.RequestDeferred, self.waiting[0].name, reason, need, free)
        return False

    def _full(self, reason: str, need: int, free: int) -> bool:
        """Defer. A complete batch leaves without the sequences that do not fit."""
        if self.config.batching != "continuous":
            self.let_in = set()
        return self._defer(reason, need, free)

    def _admits(self, first: Plain, now: float) -> bool:
        """Whether the first waiting sequence is admitted; if not, emit the reason."""
        asked, config, num_tokens = first.asked, self.config, len(first.tokens)
        if first.state != "preempted" and asked.given.arrival_number not in self.let_in:
            if config.batching != "continuous" and self.running and self.plan:
                return self._defer("static_batch", len(self.running), 0)
            batch_size = config.batch_size or config.max_num_seqs
            oldest = min(sequence.asked.given.arrival_time for sequence in self.waiting)
            is_short = config.batch_delay and len(self.waiting) < batch_size
            if is_short and now - oldest < config.batch_delay:
                return self._defer("batch_delay", batch_size, len(self.waiting))
            newcomers = [first] if config.batching == "sequential" else self.waiting
            self.let_in = {sequence.asked.given.arrival_number for sequence in newcomers}
        if not self._left():
            return self._defer("token_budget", num_tokens, 0)
        num_slots = 1 + asked.num_to_fork - len(asked.kept_slots)
        num_free = max(0, len(self.free_slots) - (config.max_num_seqs - self.max_num_seqs))
        if num_slots > num_free:
            return self._full("max_num_seqs", num_slots, num_free)
        hits = self.memory.hits(first)
        num_copies = asked.num_to_fork if num_tokens % config.block_size else 0
        if (missing := self.memory.lacks(first, num_tokens, hits, num_copies)) is not None:
            is_run = config.kv_cache_allocator == "contiguous"
            return self._full("no_contiguous_run" if is_run else "no_blocks", *missing)
        cached = len(hits) * config.block_size
        start = min(cached, num_tokens - 1)
        chunk = num_tokens - start
        if chunk > self._left():
            if not config.enable_chunked_prefill:
                return self._defer("token_budget", chunk, self._left())
            chunk = self._left()
        self.memory.extend(first, start + chunk, hits)
        self.memory.explain_the_miss(first, hits)
        self.waiting.pop(0)
        self._come_in(first, cached, start)
        self.plan.append([first, start, chunk, True])
        self._commit(*self.plan[-1])
        return True

    def _come_in(self, sequence: Plain, cached: int, start: int) -> None:
        asked = sequence.asked
        kind = ev.RequestResumed if sequence.state == "preempted" else ev.RequestAdmitted
        sequence.state, sequence.num_cached, sequence.num_computed = "running", cached, start
        sequence.slot = min(self.free_slots)
        self.free_slots.remove(sequence.slot)
        while len(asked.kept_slots) < asked.num_to_fork:
            asked.kept_slots.add(kept := min(self.free_slots))
            self.free_slots.remove(kept)
        self.running.append(sequence)
        self._tell(kind, sequence.name, sequence.slot, cached, start)

    def _commit(self, sequence: Plain, start: int, num_tokens: int, is_fresh: bool) -> None:
        is_decode = num_tokens == 1 and start >= len(sequence.asked.given.prompt_token_ids)
        kind = "decode" if is_decode else "prefill"
        self._tell(ev.StepScheduled, sequence.name, num_tokens, kind, start)
        sequence.num_computed = start + num_tokens
        self.memory.give_names(sequence)
        self.sampling[sequence.name] = []
        if sequence.num_computed == len(sequence.tokens):
            self.sampling[sequence.name].append(sequence.name)
            while sequence.asked.num_to_fork and not sequence.asked.given.params.use_beam_search:
                self.sampling[sequence.name].append(self._fork(sequence).name)

    def planned(self) -> Iterator[tuple]:
        """The plan of the last step, in the form that `WatchedEngine` compares."""
        for sequence, start, num_tokens, is_fresh in self.plan:
            yield sequence.name, start, num_tokens, is_fresh, self.sampling[sequence.name]


def told(event: Event) -> tuple:
    """Kind and fields of an event, without number, step and time."""
    return (type(event), *msgspec.structs.astuple(event)[3:])
