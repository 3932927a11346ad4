"""A block's count begins at 0, and its first owner is not counted."""

from minivllm.core import block_pool as engine

HINT = (
    "pop_free_block gives the block to an owner. Where is this owner counted, if not in _hand_out?"
)


class BlockPool(engine.BlockPool):
    def _hand_out(self, block: engine.KVCacheBlock) -> engine.KVCacheBlock:
        super()._hand_out(block)
        block.ref_cnt = 0
        return block
