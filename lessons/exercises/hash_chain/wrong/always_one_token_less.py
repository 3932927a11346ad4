"""The number of computed tokens is always one less than the number of cached tokens."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "If more tokens follow the cached ones, there is something to compute anyway. When must the"
    " last cached token be computed again?"
)


class KVCacheManager(engine.KVCacheManager):
    def _longest_cached_prefix(self, sequence: Sequence) -> engine.ComputedBlocks:
        found = super()._longest_cached_prefix(sequence)
        return found._replace(num_computed_tokens=max(found.num_cached_tokens - 1, 0))
