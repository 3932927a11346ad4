"""Whoever finds a block owns it from then on."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "A lookup may come to nothing: the request may have to wait, and look again. Who gives back"
    " what it took the first time?"
)


class KVCacheManager(engine.KVCacheManager):
    def _longest_cached_prefix(self, sequence: Sequence) -> engine.ComputedBlocks:
        found = super()._longest_cached_prefix(sequence)
        for block in found.blocks:
            self.pool.touch(block)
        return found
