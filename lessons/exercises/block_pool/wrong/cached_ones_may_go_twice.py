"""A cached block is free and keeps its hash, so releasing it again does no harm."""

from minivllm.core import block_pool as engine

HINT = (
    "The block has no owner, with or without a hash. A second release is a bug in the caller: raise"
    " BlockPoolError."
)


class BlockPool(engine.BlockPool):
    def release(self, block: engine.KVCacheBlock) -> None:
        if block.ref_cnt > 0 or block.block_hash is None:
            super().release(block)
