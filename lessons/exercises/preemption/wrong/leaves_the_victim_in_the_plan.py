"""A sequence that is in the plan stays in the plan."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import RequestStatus, Sequence
from minivllm.core.scheduler_output import SchedulerOutput

HINT = (
    "A victim may already have tokens in this step's plan. Whose blocks would the model write them"
    " into?"
)


class Scheduler(engine.Scheduler):
    def _make_room(
        self, plan: SchedulerOutput, sequence: Sequence, num_tokens: int
    ) -> Shortage | None:
        last_shortage = None
        while sequence.status is RequestStatus.RUNNING and (
            shortage := self.kv_cache_manager.allocate_slots(sequence, num_tokens)
        ):
            last_shortage = shortage
            victim = self.waiting.choose_victim(self.running)
            self._preempt(victim, sequence, shortage)
            plan.preempted.append(victim)
        return last_shortage
