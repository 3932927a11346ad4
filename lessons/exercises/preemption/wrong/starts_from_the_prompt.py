"""A victim starts again from its prompt, so its answer is thrown away."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import Sequence

HINT = (
    "The client has seen those words. They are in token_ids, and recomputing their keys and values"
    " needs nothing else."
)


class Scheduler(engine.Scheduler):
    def _preempt(self, victim: Sequence, victim_of: Sequence, shortage: Shortage) -> None:
        super()._preempt(victim, victim_of, shortage)
        del victim.token_ids[victim.num_prompt_tokens :]
        victim.num_tokens = victim.num_prompt_tokens
