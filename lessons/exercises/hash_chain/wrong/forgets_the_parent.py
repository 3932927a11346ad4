"""A block's hash depends on its own tokens only."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.block_math import hash_block_tokens
from minivllm.core.request import Sequence

HINT = (
    "The same words after a different beginning have different keys and values. Where does your"
    " hash include that?"
)


class KVCacheManager(engine.KVCacheManager):
    def _extend_hashes(self, sequence: Sequence, num_tokens: int) -> None:
        hashes, size = sequence.block_hashes, self.block_size
        while (len(hashes) + 1) * size <= num_tokens:
            start = len(hashes) * size
            extra_keys = () if hashes else sequence.request.extra_keys
            hashes.append(
                hash_block_tokens(None, sequence.token_ids[start : start + size], extra_keys)
            )
