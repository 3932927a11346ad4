"""Budget that was given out in this step stays spent, even if its sequence is preempted."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import RequestStatus
from minivllm.core.scheduler_output import ScheduledSequence, SchedulerOutput

HINT = (
    "The victim has left the plan, so its tokens do not go through the model. What should happen to"
    " its share of the budget?"
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
                if sequence.status is RequestStatus.PREEMPTED:
                    index = running.index(scheduled[-1].sequence) + 1 if scheduled else 0
                    continue
                index = running.index(sequence)
            scheduled.append(ScheduledSequence(sequence, start, num_tokens))
            budget -= num_tokens
            index += 1
        return budget, last_shortage
