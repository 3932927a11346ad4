"""Blocks are given back in the order in which they were taken."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "What is freed first is reused first. Which is worth more to the next prompt that begins alike:"
    " the head of this one, or its tail?"
)


class KVCacheManager(engine.KVCacheManager):
    def free(self, sequence: Sequence) -> None:
        while sequence.block_table:
            self._let_go(sequence, sequence.block_table.pop(0))
        sequence.num_hashed_blocks = 0
