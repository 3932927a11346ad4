"""A victim waits behind all others, as everybody who comes in."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import Sequence

HINT = (
    "It was here before all who wait. Under fcfs, who should be next? The queue has a method of its"
    " own for this."
)


class Scheduler(engine.Scheduler):
    def _preempt(self, victim: Sequence, victim_of: Sequence, shortage: Shortage) -> None:
        super()._preempt(victim, victim_of, shortage)
        self.waiting.remove(victim)
        self.waiting.add(victim)
