"""The first release puts a block back, even if it has another owner."""

from minivllm.core import block_pool as engine
from minivllm.errors import BlockPoolError

HINT = (
    "A block with two owners loses one. Who reads its keys and values in the next step? Put it back"
    " only when the count is 0."
)


class BlockPool(engine.BlockPool):
    def release(self, block: engine.KVCacheBlock) -> None:
        if block.ref_cnt == 0:
            raise BlockPoolError("no owner")
        block.ref_cnt -= 1
        if block.prev_free is None:
            self._put_back(block)
