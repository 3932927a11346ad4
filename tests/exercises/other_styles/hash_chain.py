"""takewhile for the prefix; positions instead of counts for the chain."""

from minivllm.core.block_math import hash_block_tokens
from minivllm.core.kv_cache_manager import ComputedBlocks


class KVCacheManager:
    def _longest_cached_prefix(self, sequence):
        from itertools import takewhile

        found = map(self.pool.get_cached_block, sequence.block_hashes)
        blocks = list(takewhile(lambda block: block is not None, found))
        cached = self.block_size * len(blocks)
        if cached < sequence.num_tokens:
            return ComputedBlocks(blocks, cached, cached)
        return ComputedBlocks(blocks, cached, sequence.num_tokens - 1)

    def _extend_hashes(self, sequence, num_tokens):
        size, chain = self.block_size, sequence.block_hashes
        parent = chain[-1] if chain else None
        for begin in range(len(chain) * size, num_tokens - size + 1, size):
            tokens = sequence.token_ids[begin : begin + size]
            salt = sequence.request.extra_keys if begin == 0 else ()
            parent = hash_block_tokens(parent, tokens, salt)
            chain += [parent]
