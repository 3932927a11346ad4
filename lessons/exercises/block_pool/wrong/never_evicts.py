"""A block keeps its hash when it is handed out, so that prompts can always hit it."""

from minivllm.core import block_pool as engine

HINT = (
    "The new owner writes other tokens into the block. What does a prompt read that still finds it"
    " by the old hash?"
)


class BlockPool(engine.BlockPool):
    def _hand_out(self, block: engine.KVCacheBlock) -> engine.KVCacheBlock:
        block.ref_cnt = 1
        return block
