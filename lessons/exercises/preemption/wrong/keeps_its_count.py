"""The victim's tokens are computed, and computed they stay."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import Sequence

HINT = (
    "Their keys and values lay in blocks that belong to somebody else now. Where would the model go"
    " on, if num_computed_tokens stays?"
)


class Scheduler(engine.Scheduler):
    def _preempt(self, victim: Sequence, victim_of: Sequence, shortage: Shortage) -> None:
        num_computed = victim.num_computed_tokens
        super()._preempt(victim, victim_of, shortage)
        victim.num_computed_tokens = num_computed
