"""Whoever needs the block is the one that goes on, so the victim is one of the others."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import RequestStatus, Sequence
from minivllm.core.scheduler_output import SchedulerOutput

HINT = (
    "The policy says that the newest goes. If that is the one in need, it waits, or it would live"
    " at the cost of those before it."
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
            others = [one for one in self.running if one is not sequence]
            victim = self.waiting.choose_victim(others or self.running)
            plan.withdraw(victim)
            self._preempt(victim, sequence, shortage)
            plan.preempted.append(victim)
        return last_shortage
