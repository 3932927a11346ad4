"""A cached block lies on the free queue with its name; to release it again does no harm."""

from minivllm.core import block_pool as engine

HINT = (
    "Nobody owns it, whether it has a name or not. A second release is a mistake of the caller:"
    " raise BlockPoolError."
)


class BlockPool(engine.BlockPool):
    def release(self, block: engine.KVCacheBlock) -> None:
        if block.ref_cnt > 0 or block.block_hash is None:
            super().release(block)
