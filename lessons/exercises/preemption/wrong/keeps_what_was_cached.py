"""What the prefix cache gave once it will give again."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import Sequence

HINT = (
    "Between now and then the cached blocks may be evicted. num_cached_tokens tells what it has,"
    " not what it may find."
)


class Scheduler(engine.Scheduler):
    def _preempt(self, victim: Sequence, victim_of: Sequence, shortage: Shortage) -> None:
        num_cached = victim.num_cached_tokens
        super()._preempt(victim, victim_of, shortage)
        victim.num_cached_tokens = num_cached
