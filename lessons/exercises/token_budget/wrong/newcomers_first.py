"""Waiting sequences have waited longest, so they come first and running ones get the rest."""

from minivllm.core import scheduler as engine
from minivllm.core.scheduler_output import SchedulerOutput

HINT = (
    "A user reads an answer as it is generated, and a long prompt arrives. What does that user see"
    " in this step?"
)


class Scheduler(engine.Scheduler):
    def _spend_budget(self, plan: SchedulerOutput, now: float) -> int:
        old = list(self.running)
        plan.budget = self._schedule_waiting(plan, plan.budget, now)
        newcomers, plan.scheduled = plan.scheduled, []
        new, self.running = [one for one in self.running if one not in old], old
        budget, shortage = self._schedule_running(plan)
        for item in plan.scheduled:
            self._commit(item)
        self.running += new
        plan.budget, plan.scheduled = self.max_num_batched_tokens, plan.scheduled + newcomers
        if shortage and self.waiting:
            self._defer(self.waiting.peek(), "preempted_this_step", shortage.need, shortage.free)
        return budget
