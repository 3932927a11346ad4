"""One victim always makes enough room."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import SchedulerOutput

HINT = (
    "The victim may have had too few blocks, or blocks that it shared. Try again after each victim."
)


class Scheduler(engine.Scheduler):
    def _make_room(
        self, plan: SchedulerOutput, sequence: Sequence, num_tokens: int
    ) -> Shortage | None:
        last_shortage = self.kv_cache_manager.allocate_slots(sequence, num_tokens)
        if last_shortage is not None:
            victim = self.waiting.choose_victim(self.running)
            plan.withdraw(victim)
            self._preempt(victim, sequence, last_shortage)
            plan.preempted.append(victim)
            if victim is not sequence:
                self.kv_cache_manager.allocate_slots(sequence, num_tokens)
        return last_shortage
