"""A shortage that preemption has solved is of no interest any more."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.scheduler_output import SchedulerOutput

HINT = (
    "Blocks are plainly short. Who would take, in this very step, what the victim has just"
    " given up?"
)


class Scheduler(engine.Scheduler):
    def _schedule_running(self, plan: SchedulerOutput) -> tuple[int, Shortage | None]:
        budget, _ = super()._schedule_running(plan)
        return budget, None
