"""Blocks with equal tokens have equal hashes, no matter which customer sent them."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.block_math import hash_block_tokens
from minivllm.core.request import Sequence

HINT = (
    "Two customers with different salts must never share a block. Where do you use the request's"
    " extra_keys?"
)


class KVCacheManager(engine.KVCacheManager):
    def _extend_hashes(self, sequence: Sequence, num_tokens: int) -> None:
        hashes, size = sequence.block_hashes, self.block_size
        while (len(hashes) + 1) * size <= num_tokens:
            start = len(hashes) * size
            parent = hashes[-1] if hashes else None
            hashes.append(hash_block_tokens(parent, sequence.token_ids[start : start + size]))
