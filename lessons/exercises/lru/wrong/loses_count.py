"""The number of free blocks changes when one is popped; a hit that takes one from the middle is not
counted.
"""

from minivllm.core import block_pool as engine
from minivllm.errors import BlockPoolError

HINT = (
    "A hit on a free block costs a free block too. Who tells the scheduler, if num_free_blocks does"
    " not?"
)


class FreeKVCacheBlockQueue(engine.FreeKVCacheBlockQueue):
    def popleft(self) -> engine.KVCacheBlock:
        block = super().popleft()
        self.num_free_blocks -= 1
        return block

    def remove(self, block: engine.KVCacheBlock) -> None:
        if block.prev_free is None:
            raise BlockPoolError("not there")
        super().remove(block)
        self.num_free_blocks += 1
