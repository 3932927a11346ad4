"""A sequence grows by one token per step, so one new block is always enough."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = "A prompt brings many tokens at once. How many blocks can be missing then?"


class KVCacheManager(engine.KVCacheManager):
    def _extend_table(self, sequence: Sequence, num_tokens: int) -> None:
        if len(sequence.block_table) < self.num_blocks_for(num_tokens):
            self._append_new_block(sequence)
