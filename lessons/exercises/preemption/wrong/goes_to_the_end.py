"""A victim waits behind all other sequences, like every new request."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import Sequence

HINT = (
    "The victim arrived before all waiting sequences. Which one should be next under fcfs? The"
    " queue has a separate method for victims."
)


class Scheduler(engine.Scheduler):
    def _preempt(self, victim: Sequence, victim_of: Sequence, shortage: Shortage) -> None:
        super()._preempt(victim, victim_of, shortage)
        self.waiting.remove(victim)
        self.waiting.add(victim)
