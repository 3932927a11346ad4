"""The count is decreased first and checked afterwards."""

from minivllm.core import block_pool as engine
from minivllm.errors import BlockPoolError

HINT = (
    "Your error comes when the count is already -1. A call that fails must change nothing: check"
    " first."
)


class BlockPool(engine.BlockPool):
    def release(self, block: engine.KVCacheBlock) -> None:
        block.ref_cnt -= 1
        if block.ref_cnt < 0:
            raise BlockPoolError("no owner")
        if block.ref_cnt == 0:
            self._put_back(block)
