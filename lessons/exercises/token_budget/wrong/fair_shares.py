"""The budget is divided evenly among those who run."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import RequestStatus
from minivllm.core.scheduler_output import ScheduledSequence, SchedulerOutput

HINT = "Ada lacks one token, and your share for her is five. Who could have used the other four?"


class Scheduler(engine.Scheduler):
    def _schedule_running(self, plan: SchedulerOutput) -> tuple[int, Shortage | None]:
        budget, last_shortage, index = plan.budget, None, 0
        share = max(1, plan.budget // max(1, len(self.running)))
        while index < len(self.running) and budget > 0:
            sequence = self.running[index]
            start = sequence.num_computed_tokens
            num_tokens = min(sequence.num_tokens - start, share, budget)
            if num_tokens == 0:
                index += 1
                continue
            earlier = self.running[:index]
            if shortage := self._make_room(plan, sequence, start + num_tokens):
                last_shortage = shortage
                index = sum(other.status is RequestStatus.RUNNING for other in earlier)
                budget = plan.budget - sum(item.num_tokens for item in plan.scheduled)
            if sequence.status is RequestStatus.PREEMPTED:
                continue
            plan.scheduled.append(ScheduledSequence(sequence, start, num_tokens))
            budget -= num_tokens
            index += 1
        return budget, last_shortage
