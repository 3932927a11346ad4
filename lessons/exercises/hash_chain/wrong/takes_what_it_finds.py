"""Whoever finds a block owns it from then on."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = "A lookup may come to nothing: the request may have to wait, and look again. Who gives back what it took the first time?"


class KVCacheManager(engine.KVCacheManager):
    def get_computed_blocks(self, sequence: Sequence) -> engine.ComputedBlocks:
        found = super().get_computed_blocks(sequence)
        for block in found.blocks:
            self.pool.touch(block)
        return found
