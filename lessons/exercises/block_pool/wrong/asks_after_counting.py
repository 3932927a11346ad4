"""touch checks whether the block was free after it has counted the new owner."""

from minivllm.core import block_pool as engine

HINT = (
    "touch returns whether the block was free before the call. Save the answer before you change"
    " ref_cnt."
)


class BlockPool(engine.BlockPool):
    def touch(self, block: engine.KVCacheBlock) -> bool:
        super().touch(block)
        return block.ref_cnt == 0
