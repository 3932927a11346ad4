"""The salt must be part of every block's hash."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.block_math import hash_block_tokens
from minivllm.core.request import Sequence

HINT = (
    "Every hash already depends on the first block's salt, through its parent. So which blocks"
    " still need the salt?"
)


class KVCacheManager(engine.KVCacheManager):
    def _extend_hashes(self, sequence: Sequence, num_tokens: int) -> None:
        hashes, size = sequence.block_hashes, self.block_size
        while (len(hashes) + 1) * size <= num_tokens:
            start = len(hashes) * size
            parent = hashes[-1] if hashes else None
            extra_keys = sequence.request.extra_keys
            hashes.append(
                hash_block_tokens(parent, sequence.token_ids[start : start + size], extra_keys)
            )
