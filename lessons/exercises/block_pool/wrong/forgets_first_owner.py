"""A block's count begins at 0 and the first owner is not counted."""

from minivllm.core import block_pool as engine

HINT = "pop_free_block gives the block to somebody. Who counts that owner, if _hand_out does not?"


class BlockPool(engine.BlockPool):
    def _hand_out(self, block: engine.KVCacheBlock) -> engine.KVCacheBlock:
        super()._hand_out(block)
        block.ref_cnt = 0
        return block
