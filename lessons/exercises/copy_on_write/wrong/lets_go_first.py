"""Release the shared block first: then at least one block is free for the copy."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import BlockCopy
from minivllm.events import types as ev

HINT = (
    "If you are the last owner, the released block is free, and the next pop may return the same"
    " block. Pop first, release last."
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
