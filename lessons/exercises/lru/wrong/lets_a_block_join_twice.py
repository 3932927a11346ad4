"""The caller of append knows that the block is not in the queue, so no check is needed."""

from minivllm.core import block_pool as engine

HINT = (
    "A block that joins twice is handed out twice, and both owners write into it. Refuse it while"
    " it has links."
)


class FreeKVCacheBlockQueue(engine.FreeKVCacheBlockQueue):
    def _insert_between(
        self, left: engine.KVCacheBlock, block: engine.KVCacheBlock, right: engine.KVCacheBlock
    ) -> None:
        if block.prev_free is not None:
            self.remove(block)
            if left is block:
                left = right.prev_free
            if right is block:
                right = left.next_free
        super()._insert_between(left, block, right)
