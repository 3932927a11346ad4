"""After the call, the table has entries for exactly the requested tokens."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "If the call asks for fewer tokens than before, it has nothing to do. Who releases the blocks"
    " that you remove from the table?"
)


class KVCacheManager(engine.KVCacheManager):
    def _extend_table(self, sequence: Sequence, num_tokens: int) -> None:
        del sequence.block_table[self.num_blocks_for(num_tokens) :]
        super()._extend_table(sequence, num_tokens)
