"""A victim that waits is one that waits, as any other."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import RequestStatus, Sequence

HINT = (
    "When it comes back it is resumed, not admitted, and it is not counted twice. By what does the"
    " scheduler know?"
)


class Scheduler(engine.Scheduler):
    def _preempt(self, victim: Sequence, victim_of: Sequence, shortage: Shortage) -> None:
        super()._preempt(victim, victim_of, shortage)
        victim.status = RequestStatus.WAITING
