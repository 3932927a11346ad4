"""Afterwards the table has entries for the tokens asked for, no more and no fewer."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "Asked for fewer tokens than before it has nothing to do. Who releases the blocks that you take"
    " out of the table?"
)


class KVCacheManager(engine.KVCacheManager):
    def _extend_table(self, sequence: Sequence, num_tokens: int) -> None:
        del sequence.block_table[self.num_blocks_for(num_tokens) :]
        super()._extend_table(sequence, num_tokens)
