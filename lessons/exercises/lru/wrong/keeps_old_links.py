"""Only the neighbours' links must change; the block that leaves can keep its own links."""

from minivllm.core import block_pool as engine
from minivllm.errors import BlockPoolError

HINT = (
    "A block with links looks as if it were in the queue. Does yours, after it has left? What"
    " happens when it comes back?"
)


class FreeKVCacheBlockQueue(engine.FreeKVCacheBlockQueue):
    def remove(self, block: engine.KVCacheBlock) -> None:
        if block.prev_free is None:
            raise BlockPoolError("not there")
        block.prev_free.next_free = block.next_free
        block.next_free.prev_free = block.prev_free
        self.num_free_blocks -= 1
