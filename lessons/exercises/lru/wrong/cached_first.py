"""The two ends are mixed up: cached blocks are reused first, worthless ones last."""

from minivllm.core import block_pool as engine
from minivllm.events import types as ev

HINT = (
    "popleft takes from the head. So which kind of block must never stand there while the other"
    " kind is free?"
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
