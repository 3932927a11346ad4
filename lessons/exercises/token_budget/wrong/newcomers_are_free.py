"""Every new sequence can use all the budget that running sequences left."""

from minivllm.core import scheduler as engine
from minivllm.core.scheduler_output import SchedulerOutput

HINT = (
    "Two prompts were admitted, and each got all that was left. How many tokens has this step now?"
)


class Scheduler(engine.Scheduler):
    def _schedule_waiting(self, plan: SchedulerOutput, budget: int, now: float) -> int:
        left = budget
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
            left -= item.num_tokens
        return left
