"""Every cached block of the prompt is a hit, also after a block that is missing."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "Entry i of a table holds the i-th block of tokens. Which entries do your hits get if a block"
    " before them is missing?"
)


class KVCacheManager(engine.KVCacheManager):
    def _longest_cached_prefix(self, sequence: Sequence) -> engine.ComputedBlocks:
        found = [self.pool.get_cached_block(block_hash) for block_hash in sequence.block_hashes]
        hits = [block for block in found if block is not None]
        num_cached = len(hits) * self.block_size
        return engine.ComputedBlocks(hits, num_cached, min(num_cached, sequence.num_tokens - 1))
