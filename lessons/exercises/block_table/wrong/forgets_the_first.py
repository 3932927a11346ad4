"""The slice stops before entry 0."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = "Count the owners after free: one block still has an owner. Where does your slice end?"


class KVCacheManager(engine.KVCacheManager):
    def free(self, sequence: Sequence) -> None:
        self._let_go(sequence, sequence.block_table[:0:-1])
        del sequence.block_table[1:]
        sequence.num_hashed_blocks = 0
