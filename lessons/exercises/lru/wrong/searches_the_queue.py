"""To remove a block, search for it from the head."""

from minivllm.core import block_pool as engine

HINT = (
    "The block already knows both neighbours. With a hundred thousand free blocks, what does your"
    " search cost for each hit?"
)


class FreeKVCacheBlockQueue(engine.FreeKVCacheBlockQueue):
    def remove(self, block: engine.KVCacheBlock) -> None:
        one = self._head
        while one is not self._tail and one is not block:
            one = one.next_free
        super().remove(block)
