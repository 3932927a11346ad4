"""Each call hashes all blocks of the sequence, from the first one on."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.block_math import hash_block_tokens
from minivllm.core.request import Sequence

HINT = (
    "After the second call, the list is longer than the number of blocks. Which hashes were already"
    " there?"
)


class KVCacheManager(engine.KVCacheManager):
    def _extend_hashes(self, sequence: Sequence, num_tokens: int) -> None:
        parent, size = None, self.block_size
        for start in range(0, num_tokens - size + 1, size):
            extra_keys = sequence.request.extra_keys if start == 0 else ()
            parent = hash_block_tokens(parent, sequence.token_ids[start : start + size], extra_keys)
            sequence.block_hashes.append(parent)
