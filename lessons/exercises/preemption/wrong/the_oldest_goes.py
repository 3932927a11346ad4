"""The sequence that has run longest is the victim."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import RequestStatus, Sequence
from minivllm.core.scheduler_output import SchedulerOutput

HINT = (
    "The oldest sequence has the most tokens to compute again and is closest to its end. Which one"
    " does the policy choose?"
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
            victim = self.running[0]
            plan.withdraw(victim)
            self._preempt(victim, sequence, shortage)
            plan.preempted.append(victim)
        return last_shortage
