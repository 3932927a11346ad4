"""Freeing only releases the blocks; the block table of a finished sequence does not matter."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "A preempted sequence comes back with the table that you left. Who owns the blocks in it by"
    " then?"
)


class KVCacheManager(engine.KVCacheManager):
    def free(self, sequence: Sequence) -> None:
        for block in reversed(sequence.block_table):
            self._let_go(sequence, block)
        sequence.num_hashed_blocks = 0
