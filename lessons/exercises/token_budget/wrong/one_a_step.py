"""It is enough to admit one sequence per step."""

from minivllm.core import scheduler as engine
from minivllm.core.scheduler_output import SchedulerOutput

HINT = (
    "The step has tokens, slots and blocks left, and a sequence is waiting for them. Why should it"
    " wait longer?"
)


class Scheduler(engine.Scheduler):
    def _schedule_waiting(self, plan: SchedulerOutput, budget: int, now: float) -> int:
        if self.waiting:
            sequence = self.waiting.peek()
            if hold := self._hold(sequence, plan, budget, now):
                self._defer(sequence, *hold)
            elif item := self._try_to_admit(sequence, budget):
                plan.scheduled.append(item)
                self._commit(item)
                budget -= item.num_tokens
        return budget
