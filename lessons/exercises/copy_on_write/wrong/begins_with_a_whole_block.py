"""The first slot of a shared block is free for all, so only a write after it needs a copy."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "Two tables contain the same empty block, and each sequence has a token for its first slot."
    " Whose token is there in the end?"
)


class KVCacheManager(engine.KVCacheManager):
    def writes_to_shared_block(self, sequence: Sequence) -> bool:
        position = max(sequence.num_computed_tokens, sequence.num_cached_tokens)
        return position % self.block_size > 0 and super().writes_to_shared_block(sequence)
