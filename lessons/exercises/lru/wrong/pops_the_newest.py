"""The queue is a stack: the block that joined last is reused next."""

from minivllm.core import block_pool as engine
from minivllm.errors import BlockPoolError

HINT = (
    "You take the block before the tail sentinel. Which end is reused last, according to the"
    " docstring of `append`?"
)


class FreeKVCacheBlockQueue(engine.FreeKVCacheBlockQueue):
    def popleft(self) -> engine.KVCacheBlock:
        block = self._tail.prev_free
        if block is self._head:
            raise BlockPoolError("empty")
        self.remove(block)
        return block
