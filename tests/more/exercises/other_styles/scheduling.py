"""Scheduling: right solutions of its exercises in another style; see test_unseen_solutions.py."""

from minivllm.core.admission import Hold
from minivllm.core.request import RequestStatus, Sequence
from minivllm.core.scheduler_output import ScheduledSequence
from minivllm.events import types as ev
from minivllm.lessons.shown.small_engine import SmallOutput, SmallWork, sample


class SmallEngine:
    # engine-loop: slices for the queue, one list for those who continue, and a loop of steps.
    def schedule(self):
        num_free = max(self.max_num_seqs - len(self.running), 0)
        newcomers, self.waiting = self.waiting[:num_free], self.waiting[num_free:]
        self.running = self.running + newcomers
        batch = []
        for request in self.running:
            missing = request.token_ids[request.num_computed_tokens :]
            batch.append(SmallWork(request, len(missing)))
        return batch

    def step(self):
        outputs, going_on = [], []
        batch = self.schedule()
        rows = self.model.execute(batch) if batch else []
        for number, (request, num_tokens) in enumerate(batch):
            token_id = sample(rows[number])
            request.output.append(token_id)
            request.num_computed_tokens = request.num_computed_tokens + num_tokens
            if not request.is_finished:
                going_on.append(request)
            outputs.append(SmallOutput(request.name, token_id, request not in going_on))
        self.running = going_on
        return outputs

    def run(self, arrivals):
        steps, number = [], 0
        last = max(arrivals) if arrivals else 0
        while True:
            if number >= last and not (self.waiting or self.running):
                return steps
            number += 1
            for request in arrivals.get(number, []):
                self.waiting.append(request)
            steps.append(self.step())


class AdmissionPolicy:
    # continuous-batching: all() for the oldest, and a loop that ends after the first.
    def _hold_newcomer(self, waiting, running, nothing_scheduled, now):
        is_busy = len(running) > 0 and not nothing_scheduled
        if is_busy and self._batching in ("static", "sequential"):
            return Hold("static_batch", len(running), 0)
        is_small = self._batch_delay > 0 and len(waiting) < self._batch_size
        if is_small and all(now - new.request.arrival_time < self._batch_delay for new in waiting):
            return Hold("batch_delay", self._batch_size, len(waiting))
        self._let_in = set()
        self._let_in.add(waiting.peek().request.arrival_number)
        if self._batching != "sequential":
            self._let_in.update(sequence.request.arrival_number for sequence in waiting)
        return None


class Scheduler:
    # chunked-prefill: early returns.
    def _first_chunk(self, sequence, start, budget):
        missing = len(sequence.token_ids[start:])
        if missing <= budget:
            return missing
        return budget if self.enable_chunked_prefill else 0

    def _advance(self, item):
        sequence, bus = item.sequence, self._bus
        is_decode = item.start >= sequence.num_prompt_tokens and item.num_tokens == 1
        item.kind = "decode" if is_decode else item.kind
        if bus.active:
            bus.emit(ev.StepScheduled, sequence.seq_id, item.num_tokens, item.kind, item.start)
        sequence.num_computed_tokens = item.start + item.num_tokens
        if sequence.num_computed_tokens < sequence.num_tokens:
            return
        item.sampling.append(sequence)

    # preemption: an endless loop with returns; another order where none is needed.
    def _make_room(self, plan, sequence, num_tokens):
        found = []
        while True:
            if sequence.status is not RequestStatus.RUNNING:
                return found[-1]
            shortage = self.kv_cache_manager.allocate_slots(sequence, num_tokens)
            if shortage is None:
                return found[-1] if found else None
            found.append(shortage)
            victim = self.waiting.choose_victim(self.running)
            self._preempt(victim, sequence, shortage)
            plan.withdraw(victim)
            plan.preempted += [victim]

    def _preempt(self, victim, victim_of, shortage):
        victim.status = RequestStatus.PREEMPTED
        self.running = [sequence for sequence in self.running if sequence is not victim]
        self.kv_cache_manager.free(victim)
        self.slots.release(victim)
        victim.num_computed_tokens = victim.num_cached_tokens = 0
        victim.num_preemptions, self.counters.num_preemptions = (
            victim.num_preemptions + 1,
            self.counters.num_preemptions + 1,
        )
        position = self.waiting.add_preempted(victim)
        if self._bus.active:
            numbers = (shortage.need, shortage.free, position)
            self._bus.emit(ev.RequestPreempted, victim.seq_id, victim_of.seq_id, *numbers)

    # token-budget: the budget is what the plan leaves; the manager is always asked.
    def _spend_budget(self, plan, now):
        left, shortage = self._schedule_running(plan)
        for item in plan.scheduled:
            self._commit(item)
        if shortage is not None:
            if self.waiting:
                first = self.waiting.peek()
                self._defer(first, "preempted_this_step", shortage.need, shortage.free)
            return left
        return self._schedule_waiting(plan, left, now)

    def _schedule_running(self, plan):
        last_shortage, index = None, 0
        while index < len(self.running):
            left = plan.budget - sum(item.num_tokens for item in plan.scheduled)
            sequence = self.running[index]
            start = sequence.num_computed_tokens
            count = min(left, sequence.num_tokens - start)
            if count == 0:
                index += 1
                continue
            shortage = self._make_room(plan, sequence, start + count)
            last_shortage = shortage or last_shortage
            if sequence.status is RequestStatus.PREEMPTED:
                planned = [item.sequence for item in plan.scheduled]
                index = self.running.index(planned[-1]) + 1 if planned else 0
                continue
            plan.scheduled.append(ScheduledSequence(sequence, start, count))
            index = self.running.index(sequence) + 1
        return plan.budget - sum(item.num_tokens for item in plan.scheduled), last_shortage

    def _schedule_waiting(self, plan, budget, now):
        if not self.waiting:
            return budget
        first = self.waiting.peek()
        hold = self._hold(first, plan, budget, now)
        if hold is not None:
            self._defer(first, *hold)
            return budget
        item = self._try_to_admit(first, budget)
        if item is None:
            return budget
        plan.scheduled.append(item)
        self._commit(item)
        return self._schedule_waiting(plan, budget - item.num_tokens, now)

    def _hold(self, sequence, plan, budget, now):
        hold = self._admission.hold(self.waiting, self.running, not plan.scheduled, now)
        needed, free = self.slots.num_needed(sequence.request), self.slots.num_free
        if hold is None and budget == 0:
            hold = Hold("token_budget", sequence.num_tokens, 0)
        elif hold is None and free < needed:
            self._admission.batch_is_full()
            hold = Hold("max_num_seqs", needed, free)
        return hold


class OwnPolicy:
    # own-policy: delays by a table of priorities; the victim is found by sorting.
    @staticmethod
    def key(sequence: Sequence) -> tuple[float, int, int]:
        arrival = sequence.request.arrival_number
        delay = {0: 0, 1: 25}.get(sequence.request.priority, 50)
        for _ in range(0, sequence.num_prompt_tokens, 20):
            delay += 2
        return float(arrival + delay), arrival, sequence.index

    def choose_victim(self, running: list[Sequence]) -> Sequence:
        by_merit = sorted(running, key=self.key)
        by_merit.sort(key=lambda sequence: sequence.num_preemptions, reverse=True)
        by_merit.sort(key=lambda sequence: sequence.request.priority)
        return by_merit[-1]
