"""Only a block with a name can be hit, so only such a block has to leave the free queue."""

from minivllm.core import block_pool as engine

HINT = (
    "What tells you whether a block stands on the free queue: its name, or the number of its"
    " owners?"
)


class BlockPool(engine.BlockPool):
    def touch(self, block: engine.KVCacheBlock) -> bool:
        was_free = block.ref_cnt == 0
        if was_free and block.block_hash is not None:
            self.free_queue.remove(block)
        block.ref_cnt += 1
        return was_free
