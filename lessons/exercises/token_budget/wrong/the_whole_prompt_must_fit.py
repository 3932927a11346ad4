"""A prompt is admitted when the step has enough tokens left for all of it."""

from minivllm.core import scheduler as engine
from minivllm.core.admission import Hold
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import SchedulerOutput

HINT = (
    "A prompt has 9,000 tokens and the budget is 8,000. In which step is it admitted? A part of it"
    " can go through the model now."
)


class Scheduler(engine.Scheduler):
    def _hold(
        self, sequence: Sequence, plan: SchedulerOutput, budget: int, now: float
    ) -> Hold | None:
        if hold := self._admission.hold(self.waiting, self.running, not plan.scheduled, now):
            return hold
        if budget < sequence.num_tokens:
            return Hold("token_budget", sequence.num_tokens, budget)
        num_slots = self.slots.num_needed(sequence.request)
        if self.slots.num_free < num_slots:
            self._admission.batch_is_full()
            return Hold("max_num_seqs", num_slots, self.slots.num_free)
        return None
