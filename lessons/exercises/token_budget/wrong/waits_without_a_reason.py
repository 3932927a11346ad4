"""A sequence that may not be admitted simply stays in the queue."""

from minivllm.core import scheduler as engine
from minivllm.core.scheduler_output import SchedulerOutput

HINT = (
    "The dashboard shows why each request waits. Where does it get the reason, if you do not call"
    " _defer?"
)


class Scheduler(engine.Scheduler):
    def _schedule_waiting(self, plan: SchedulerOutput, budget: int, now: float) -> int:
        while self.waiting:
            sequence = self.waiting.peek()
            if self._hold(sequence, plan, budget, now):
                break
            item = self._try_to_admit(sequence, budget)
            if item is None:
                break
            plan.scheduled.append(item)
            self._commit(item)
            budget -= item.num_tokens
        return budget
