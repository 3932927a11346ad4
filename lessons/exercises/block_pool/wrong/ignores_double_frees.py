"""Releasing a block without an owner is harmless and can be ignored."""

from minivllm.core import block_pool as engine

HINT = (
    "The caller releases a block that it does not own. That is a bug, and ignoring it hides the"
    " bug. Raise BlockPoolError."
)


class BlockPool(engine.BlockPool):
    def release(self, block: engine.KVCacheBlock) -> None:
        if block.ref_cnt > 0:
            super().release(block)
