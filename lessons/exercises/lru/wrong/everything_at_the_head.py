"""Last freed, first reused: every block joins at the head, because it was just in use."""

from minivllm.core import block_pool as engine
from minivllm.events import types as ev

HINT = (
    "The block freed last is the most likely to be hit again soon. When is it evicted with your"
    " code?"
)


class BlockPool(engine.BlockPool):
    def _put_back(self, block: engine.KVCacheBlock) -> None:
        cached = block.block_hash is not None
        self.free_queue.prepend(block)
        if self._bus.active:
            self._bus.emit(ev.BlockFreed, block.block_id, "tail" if cached else "head")
