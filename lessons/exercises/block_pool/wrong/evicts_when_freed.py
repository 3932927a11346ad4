"""Freeing is evicting: the last owner's release also takes the block's name."""

from minivllm.core import block_pool as engine
from minivllm.errors import BlockPoolError

HINT = (
    "Free is not evicted. The content lies there until somebody writes over it: who is that, and"
    " when?"
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
