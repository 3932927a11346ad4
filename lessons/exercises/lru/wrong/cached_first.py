"""Cached blocks are reused first, uncached ones last."""

from minivllm.core import block_pool as engine
from minivllm.events import types as ev

HINT = (
    "popleft takes the block at the head. Which kind of block must not be there while a block of"
    " the other kind is free?"
)


class BlockPool(engine.BlockPool):
    def _put_back(self, block: engine.KVCacheBlock) -> None:
        cached = block.block_hash is not None
        if cached:
            self.free_queue.prepend(block)
        else:
            self.free_queue.append(block)
        if self._bus.active:
            self._bus.emit(ev.BlockFreed, block.block_id, "tail" if cached else "head")
