"""There is always a block after the head, so popleft need not check for an empty queue."""

from minivllm.core import block_pool as engine

HINT = (
    "In an empty queue, the head's neighbour is the tail sentinel, which is not a real block. Raise"
    " BlockPoolError instead."
)


class FreeKVCacheBlockQueue(engine.FreeKVCacheBlockQueue):
    def popleft(self) -> engine.KVCacheBlock:
        block = self._head.next_free
        if self.num_free_blocks:
            self.remove(block)
        return block
