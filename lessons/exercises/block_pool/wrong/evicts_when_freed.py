"""Freeing is evicting: when the last owner releases a block, the block loses its hash."""

from minivllm.core import block_pool as engine
from minivllm.errors import BlockPoolError

HINT = (
    "A free block is not evicted. Its content stays until it is overwritten. When does that happen,"
    " and by which owner?"
)


class BlockPool(engine.BlockPool):
    def release(self, block: engine.KVCacheBlock) -> None:
        if block.ref_cnt == 0:
            raise BlockPoolError("no owner")
        block.ref_cnt -= 1
        if block.ref_cnt == 0:
            if block.block_hash is not None:
                self.evict(block)
            self._put_back(block)
