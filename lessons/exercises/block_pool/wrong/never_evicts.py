"""A block keeps its name when it is handed out, so that it can be hit for ever."""

from minivllm.core import block_pool as engine

HINT = (
    "The new owner will write other tokens into the block. What would a prompt that still finds it"
    " by the old name read?"
)


class BlockPool(engine.BlockPool):
    def _hand_out(self, block: engine.KVCacheBlock) -> engine.KVCacheBlock:
        block.ref_cnt = 1
        return block
