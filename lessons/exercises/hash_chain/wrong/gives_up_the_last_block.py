"""The last block of a fully cached prompt is not used, to leave something to compute."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "vLLM does this and computes a whole block again. Here only one token goes through the model,"
    " for its query, and all blocks are kept."
)


class KVCacheManager(engine.KVCacheManager):
    def _longest_cached_prefix(self, sequence: Sequence) -> engine.ComputedBlocks:
        found = super()._longest_cached_prefix(sequence)
        if found.num_cached_tokens < sequence.num_tokens or not found.blocks:
            return found
        num_cached = found.num_cached_tokens - self.block_size
        return engine.ComputedBlocks(found.blocks[:-1], num_cached, num_cached)
