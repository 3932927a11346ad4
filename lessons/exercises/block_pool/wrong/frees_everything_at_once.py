"""Releasing a block means that it has no owners any more: its count is set to 0."""

from minivllm.core import block_pool as engine
from minivllm.errors import BlockPoolError

HINT = (
    "release is called once for each owner that leaves. Does your count say how many are left, or"
    " that all have gone?"
)


class BlockPool(engine.BlockPool):
    def release(self, block: engine.KVCacheBlock) -> None:
        if block.ref_cnt == 0:
            raise BlockPoolError("no owner")
        block.ref_cnt = 0
        self._put_back(block)
