"""Only the forward links matter, because the queue is read from its head."""

from minivllm.core import block_pool as engine
from minivllm.errors import BlockPoolError

HINT = (
    "After a removal from the middle, go through the queue backwards from the tail. Which block do"
    " you meet that has left?"
)


class FreeKVCacheBlockQueue(engine.FreeKVCacheBlockQueue):
    def remove(self, block: engine.KVCacheBlock) -> None:
        if block.prev_free is None:
            raise BlockPoolError("not there")
        block.prev_free.next_free = block.next_free
        block.prev_free = block.next_free = None
        self.num_free_blocks -= 1
