"""A table that must hold n tokens gets blocks for n tokens, whatever it already has."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = "The table already has entries, and they stay. From which entry on are blocks missing?"


class KVCacheManager(engine.KVCacheManager):
    def _extend_table(self, sequence: Sequence, num_tokens: int) -> None:
        if len(sequence.block_table) < self.num_blocks_for(num_tokens):
            for _ in range(min(self.num_blocks_for(num_tokens), self.pool.num_free_blocks)):
                self._append_new_block(sequence)
