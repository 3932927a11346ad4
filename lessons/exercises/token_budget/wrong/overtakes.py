"""Every sequence that fits is admitted, even if one before it does not fit."""

from minivllm.core import scheduler as engine
from minivllm.core.scheduler_output import SchedulerOutput

HINT = (
    "Small requests keep arriving, and each takes the space that the large one needs. When is the"
    " large one admitted?"
)


class Scheduler(engine.Scheduler):
    def _schedule_waiting(self, plan: SchedulerOutput, budget: int, now: float) -> int:
        passed = []
        while self.waiting:
            sequence = self.waiting.peek()
            if hold := self._hold(sequence, plan, budget, now):
                self._defer(sequence, *hold)
                break
            if item := self._try_to_admit(sequence, budget):
                plan.scheduled.append(item)
                self._commit(item)
                budget -= item.num_tokens
            else:
                passed.append(self.waiting.pop())
        for sequence in reversed(passed):
            self.waiting.add_preempted(sequence)
        return budget
