"""If the prefix cache gave some tokens once, it will give them again."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import Sequence

HINT = (
    "The cached blocks may be evicted before the victim comes back. num_cached_tokens counts the"
    " tokens it has now, not those it may find later."
)


class Scheduler(engine.Scheduler):
    def _preempt(self, victim: Sequence, victim_of: Sequence, shortage: Shortage) -> None:
        num_cached = victim.num_cached_tokens
        super()._preempt(victim, victim_of, shortage)
        victim.num_cached_tokens = num_cached
