"""Freeing only releases the blocks; the block table of a finished sequence does not matter."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "A preempted sequence comes back with the table that you left. Who owns the blocks in it by"
    " then?"
)


class KVCacheManager(engine.KVCacheManager):
    def free(self, sequence: Sequence) -> None:
        self._let_go(sequence, sequence.block_table[::-1])
        sequence.num_hashed_blocks = 0
