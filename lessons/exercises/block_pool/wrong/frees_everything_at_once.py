"""A released block has no owners left: its count is set to 0."""

from minivllm.core import block_pool as engine
from minivllm.errors import BlockPoolError

HINT = (
    "release is called once for each owner that leaves. Should the count say how many owners are"
    " left, or that all are gone?"
)


class BlockPool(engine.BlockPool):
    def release(self, block: engine.KVCacheBlock) -> None:
        if block.ref_cnt == 0:
            raise BlockPoolError("no owner")
        block.ref_cnt = 0
        self._put_back(block)
