"""A block's name follows from its own tokens."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.block_math import hash_block_tokens
from minivllm.core.request import Sequence

HINT = (
    "The same words after another beginning have other keys and values. What in your name tells"
    " them apart?"
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
