"""If the whole prompt is cached there is nothing left to compute."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "The next token is predicted from the last one's query, and queries are not cached. What goes"
    " through the model with yours?"
)


class KVCacheManager(engine.KVCacheManager):
    def _longest_cached_prefix(self, sequence: Sequence) -> engine.ComputedBlocks:
        found = super()._longest_cached_prefix(sequence)
        return found._replace(num_computed_tokens=found.num_cached_tokens)
