"""The last block has a hash too, full or not."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.block_math import hash_block_tokens
from minivllm.core.request import Sequence

HINT = "More tokens will be written into a block that is not full. Is its hash still right then?"


class KVCacheManager(engine.KVCacheManager):
    def _extend_hashes(self, sequence: Sequence, num_tokens: int) -> None:
        hashes, size = sequence.block_hashes, self.block_size
        while len(hashes) * size < num_tokens:
            start = len(hashes) * size
            parent = hashes[-1] if hashes else None
            extra_keys = () if hashes else sequence.request.extra_keys
            hashes.append(
                hash_block_tokens(parent, sequence.token_ids[start : start + size], extra_keys)
            )
