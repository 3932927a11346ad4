"""The index in the list stays valid when an earlier sequence is preempted."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import RequestStatus
from minivllm.core.scheduler_output import ScheduledSequence, SchedulerOutput

HINT = (
    "A sequence before yours left the list, so all sequences behind it moved up. Which one does"
    " your index point to now?"
)


class Scheduler(engine.Scheduler):
    def _schedule_running(self, plan: SchedulerOutput) -> tuple[int, Shortage | None]:
        budget = plan.budget
        last_shortage = None
        running, scheduled = self.running, plan.scheduled
        index = 0
        while index < len(running) and budget > 0:
            sequence = running[index]
            start = sequence.num_computed_tokens
            num_tokens = min(sequence.num_tokens - start, budget)
            if num_tokens == 0:
                index += 1
                continue
            if shortage := self._make_room(plan, sequence, start + num_tokens):
                last_shortage = shortage
                budget = plan.budget - sum(item.num_tokens for item in scheduled)
                if sequence.status is RequestStatus.PREEMPTED:
                    continue
            scheduled.append(ScheduledSequence(sequence, start, num_tokens))
            budget -= num_tokens
            index += 1
        return budget, last_shortage
