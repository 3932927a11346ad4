"""The victim's tokens were computed, so they stay computed."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import Sequence

HINT = (
    "Their keys and values were in blocks that other sequences own now. Where would computing"
    " continue if num_computed_tokens did not change?"
)


class Scheduler(engine.Scheduler):
    def _preempt(self, victim: Sequence, victim_of: Sequence, shortage: Shortage) -> None:
        num_computed = victim.num_computed_tokens
        super()._preempt(victim, victim_of, shortage)
        victim.num_computed_tokens = num_computed
