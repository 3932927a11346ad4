"""Only a block with a hash can be hit, so only such a block must leave the free queue."""

from minivllm.core import block_pool as engine

HINT = "What decides whether a block is in the free queue: its hash, or its number of owners?"


class BlockPool(engine.BlockPool):
    def touch(self, block: engine.KVCacheBlock) -> bool:
        was_free = block.ref_cnt == 0
        if was_free and block.block_hash is not None:
            self.free_queue.remove(block)
        block.ref_cnt += 1
        return was_free
