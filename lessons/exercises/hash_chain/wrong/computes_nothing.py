"""If the whole prompt is cached, there is nothing left to compute."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "The last token's query predicts the next token, and queries are not cached. Which token goes"
    " through the model with your code?"
)


class KVCacheManager(engine.KVCacheManager):
    def _longest_cached_prefix(self, sequence: Sequence) -> engine.ComputedBlocks:
        found = super()._longest_cached_prefix(sequence)
        return found._replace(num_computed_tokens=found.num_cached_tokens)
