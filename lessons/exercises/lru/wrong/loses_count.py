"""Only popleft changes num_free_blocks; a hit that removes a block does not."""

from minivllm.core import block_pool as engine
from minivllm.errors import BlockPoolError

HINT = (
    "A hit on a free block uses up a free block too. How does the scheduler know, if"
    " num_free_blocks does not change?"
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
