"""The next token to be computed is also the next one to be written."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "If the whole prompt is cached, its last token is computed again. Is it written again? Look at"
    " num_cached_tokens."
)


class KVCacheManager(engine.KVCacheManager):
    def writes_to_shared_block(self, sequence: Sequence) -> bool:
        index = sequence.num_computed_tokens // self.block_size
        return index < len(sequence.block_table) and sequence.block_table[index].ref_cnt > 1
