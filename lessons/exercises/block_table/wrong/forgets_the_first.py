"""The loop ends when one entry is left."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = "Count the owners after free: one block still has an owner. When does your loop end?"


class KVCacheManager(engine.KVCacheManager):
    def free(self, sequence: Sequence) -> None:
        while len(sequence.block_table) > 1:
            self._let_go(sequence, sequence.block_table.pop())
        sequence.num_hashed_blocks = 0
