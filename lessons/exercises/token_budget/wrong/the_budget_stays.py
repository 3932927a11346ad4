"""The budget limits each sequence, not the step."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import RequestStatus
from minivllm.core.scheduler_output import ScheduledSequence, SchedulerOutput

HINT = "Add up the tokens that you gave out in one step. Are they more than max_num_batched_tokens?"


class Scheduler(engine.Scheduler):
    def _schedule_running(self, plan: SchedulerOutput) -> tuple[int, Shortage | None]:
        budget = plan.budget
        last_shortage = None
        running, scheduled = self.running, plan.scheduled
        index = 0
        while index < len(running):
            sequence = running[index]
            start = sequence.num_computed_tokens
            num_tokens = min(sequence.num_tokens - start, plan.budget)
            if num_tokens == 0:
                index += 1
                continue
            if shortage := self._make_room(plan, sequence, start + num_tokens):
                last_shortage = shortage
                budget = plan.budget - sum(item.num_tokens for item in scheduled)
                if sequence.status is RequestStatus.PREEMPTED:
                    index = running.index(scheduled[-1].sequence) + 1 if scheduled else 0
                    continue
                index = running.index(sequence)
            scheduled.append(ScheduledSequence(sequence, start, num_tokens))
            budget -= num_tokens
            index += 1
        return budget, last_shortage
