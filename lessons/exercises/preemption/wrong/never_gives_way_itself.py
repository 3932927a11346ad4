"""The sequence that needs the block continues, so the victim must be another one."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import RequestStatus, Sequence
from minivllm.core.scheduler_output import SchedulerOutput

HINT = (
    "Under fcfs the newest sequence is the victim. If it needs the block itself, it waits."
    " Otherwise it would take blocks from older sequences."
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
