"""First freed, first reused: every block joins at the tail, whether it has a hash or not."""

from minivllm.core import block_pool as engine
from minivllm.events import types as ev

HINT = (
    "A block without a hash has no use for a prompt. While it waits at the tail, which block is"
    " handed out and evicted instead?"
)


class BlockPool(engine.BlockPool):
    def _put_back(self, block: engine.KVCacheBlock) -> None:
        cached = block.block_hash is not None
        self.free_queue.append(block)
        if self._bus.active:
            self._bus.emit(ev.BlockFreed, block.block_id, "tail" if cached else "head")
