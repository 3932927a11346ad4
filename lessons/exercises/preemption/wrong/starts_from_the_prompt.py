"""A victim starts again from its prompt, so its answer is discarded."""

from minivllm.core import scheduler as engine
from minivllm.core.kv_cache_manager import Shortage
from minivllm.core.request import Sequence

HINT = (
    "The client has already seen these words. The tokens are in token_ids, and that is enough to"
    " compute their keys and values again."
)


class Scheduler(engine.Scheduler):
    def _preempt(self, victim: Sequence, victim_of: Sequence, shortage: Shortage) -> None:
        super()._preempt(victim, victim_of, shortage)
        del victim.token_ids[victim.num_prompt_tokens :]
        victim.num_tokens = victim.num_prompt_tokens
