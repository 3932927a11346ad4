"""To free blocks is to release them; the table of a sequence that has ended is of no interest."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "A preempted sequence comes back, with the table that you left it. Whose blocks stand in it by"
    " then?"
)


class KVCacheManager(engine.KVCacheManager):
    def free(self, sequence: Sequence) -> None:
        for block in reversed(sequence.block_table):
            self._let_go(sequence, block)
        sequence.num_hashed_blocks = 0
