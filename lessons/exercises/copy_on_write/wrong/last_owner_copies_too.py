"""A block that was shared once is copied by every sequence that writes to it."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "When all others have their copies, does a write still disturb another sequence? Check how many"
    " owners there are now, not how many there were."
)


class KVCacheManager(engine.KVCacheManager):
    def writes_to_shared_block(self, sequence: Sequence) -> bool:
        several = len(sequence.request.sequences) > 1
        index = max(sequence.num_computed_tokens, sequence.num_cached_tokens) // self.block_size
        return index < len(sequence.block_table) and several
