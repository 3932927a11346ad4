"""Blocks are given back in the order in which they were taken."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "Blocks that are freed first are reused first. Which helps the next prompt with the same"
    " beginning more: the head of this one, or its tail?"
)


class KVCacheManager(engine.KVCacheManager):
    def free(self, sequence: Sequence) -> None:
        self._let_go(sequence, sequence.block_table[:])
        sequence.block_table.clear()
        sequence.num_hashed_blocks = 0
