"""Whether the block was free is read after the new owner was counted."""

from minivllm.core import block_pool as engine

HINT = "touch answers a question about the moment before it: remember the answer before you count."


class BlockPool(engine.BlockPool):
    def touch(self, block: engine.KVCacheBlock) -> bool:
        super().touch(block)
        return block.ref_cnt == 0
