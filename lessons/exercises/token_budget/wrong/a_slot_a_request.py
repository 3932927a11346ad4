"""A request takes one batch slot."""

from minivllm.core import scheduler as engine
from minivllm.core.admission import Hold
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import SchedulerOutput

HINT = "After the prompt, three samples are three sequences. Where do the other two run?"


class Scheduler(engine.Scheduler):
    def _hold(
        self, sequence: Sequence, plan: SchedulerOutput, budget: int, now: float
    ) -> Hold | None:
        if hold := self._admission.hold(self.waiting, self.running, not plan.scheduled, now):
            return hold
        if budget == 0:
            return Hold("token_budget", sequence.num_tokens, 0)
        num_slots = 1
        if self.slots.num_free < num_slots:
            self._admission.batch_is_full()
            return Hold("max_num_seqs", num_slots, self.slots.num_free)
        return None
