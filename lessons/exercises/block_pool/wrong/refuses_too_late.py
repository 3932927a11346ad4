"""The count goes down first, and then it is checked."""

from minivllm.core import block_pool as engine
from minivllm.errors import BlockPoolError

HINT = (
    "Your error comes when the count is -1 already. A refused call must leave everything as it was:"
    " check first."
)


class BlockPool(engine.BlockPool):
    def release(self, block: engine.KVCacheBlock) -> None:
        block.ref_cnt -= 1
        if block.ref_cnt < 0:
            raise BlockPoolError("no owner")
        if block.ref_cnt == 0:
            self._put_back(block)
