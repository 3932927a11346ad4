"""A hit only counts an owner; the block stays in the free queue."""

from minivllm.core import block_pool as engine

HINT = (
    "The block that was hit is still in the free queue. Who gets it with the next pop_free_block?"
)


class BlockPool(engine.BlockPool):
    def touch(self, block: engine.KVCacheBlock) -> bool:
        was_free = block.ref_cnt == 0
        block.ref_cnt += 1
        return was_free
