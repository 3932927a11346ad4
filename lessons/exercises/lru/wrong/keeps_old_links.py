"""A block that leaves need not forget its neighbours: only they must forget it."""

from minivllm.core import block_pool as engine
from minivllm.errors import BlockPoolError

HINT = (
    "By its links a block says that it is on the queue. What does yours say after it has left, and"
    " what happens when it comes back?"
)


class FreeKVCacheBlockQueue(engine.FreeKVCacheBlockQueue):
    def remove(self, block: engine.KVCacheBlock) -> None:
        if block.prev_free is None:
            raise BlockPoolError("not there")
        block.prev_free.next_free = block.next_free
        block.next_free.prev_free = block.prev_free
        self.num_free_blocks -= 1
