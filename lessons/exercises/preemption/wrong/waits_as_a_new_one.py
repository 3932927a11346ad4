"""A waiting victim has the same status as every waiting sequence."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import RequestStatus, Sequence

HINT = (
    "When it comes back, it is resumed, not admitted, and not counted twice. What shows the"
    " scheduler the difference?"
)


class Scheduler(engine.Scheduler):
    def _preempt(self, victim: Sequence, victim_of: Sequence, shortage: Shortage) -> None:
        super()._preempt(victim, victim_of, shortage)
        victim.status = RequestStatus.WAITING
