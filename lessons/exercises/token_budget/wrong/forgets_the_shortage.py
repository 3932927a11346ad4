"""A shortage that preemption has solved no longer matters."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.scheduler_output import SchedulerOutput

HINT = (
    "Blocks are short. Which sequence would take, in this very step, the blocks that the victim has"
    " just lost?"
)


class Scheduler(engine.Scheduler):
    def _schedule_running(self, plan: SchedulerOutput) -> tuple[int, Shortage | None]:
        budget, _ = super()._schedule_running(plan)
        return budget, None
