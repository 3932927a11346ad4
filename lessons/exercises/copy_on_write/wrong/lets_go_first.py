"""First the shared block is let go, then a new one is taken: so there is always one free."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import BlockCopy
from minivllm.events import types as ev

HINT = (
    "A block that you let go as its last owner is free, and the next pop may give you the same one."
    " Pop first, release last."
)


class KVCacheManager(engine.KVCacheManager):
    def _copy_on_write(self, sequence: Sequence) -> None:
        logical = len(sequence.block_table) - 1
        shared = sequence.block_table[logical]
        self.pool.release(shared)
        own = self.pool.pop_free_block()
        self._copies[own.block_id] = BlockCopy(shared.block_id, own.block_id)
        sequence.block_table[logical] = own
        self.num_copied_blocks += 1
        if self._bus.active:
            self._bus.emit(ev.BlockCopied, shared.block_id, own.block_id, sequence.seq_id, logical)
