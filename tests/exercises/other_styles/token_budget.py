"""The budget is what the plan leaves; the manager is always asked."""

from minivllm.core.admission import Hold
from minivllm.core.request import RequestStatus
from minivllm.core.scheduler_output import ScheduledSequence


class Scheduler:
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
