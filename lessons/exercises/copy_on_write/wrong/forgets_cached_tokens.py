"""The next token to be written is the next one to be computed."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "A prompt that the cache holds whole computes its last token once more, and writes it?"
    " num_cached_tokens knows."
)


class KVCacheManager(engine.KVCacheManager):
    def writes_to_shared_block(self, sequence: Sequence) -> bool:
        index = sequence.num_computed_tokens // self.block_size
        return index < len(sequence.block_table) and sequence.block_table[index].ref_cnt > 1
