"""A lookup makes the sequence an owner of the blocks that it finds."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "A lookup may be repeated: the request may have to wait and look again. Who releases the blocks"
    " from the first lookup?"
)


class KVCacheManager(engine.KVCacheManager):
    def _longest_cached_prefix(self, sequence: Sequence) -> engine.ComputedBlocks:
        found = super()._longest_cached_prefix(sequence)
        for block in found.blocks:
            self.pool.touch(block)
        return found
