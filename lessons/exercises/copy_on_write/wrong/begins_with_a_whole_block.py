"""A block's first place is free for whoever comes, so only a write into the middle of a block can
disturb anybody.
"""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "Two tables name the same empty block, and each of the two has a token for its first place."
    " Whose token is stored there in the end?"
)


class KVCacheManager(engine.KVCacheManager):
    def writes_to_shared_block(self, sequence: Sequence) -> bool:
        position = max(sequence.num_computed_tokens, sequence.num_cached_tokens)
        return position % self.block_size > 0 and super().writes_to_shared_block(sequence)
