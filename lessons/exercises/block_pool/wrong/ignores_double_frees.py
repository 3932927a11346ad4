"""Releasing a block that nobody owns is harmless and can be passed over."""

from minivllm.core import block_pool as engine

HINT = (
    "Somebody frees what is not theirs: that is a bug in the caller, and silence hides it. Raise"
    " BlockPoolError."
)


class BlockPool(engine.BlockPool):
    def release(self, block: engine.KVCacheBlock) -> None:
        if block.ref_cnt > 0:
            super().release(block)
