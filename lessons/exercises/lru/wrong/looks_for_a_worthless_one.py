"""popleft looks for a block without a name, wherever it stands, and takes a cached one only if there is no other."""

from minivllm.core import block_pool as engine

HINT = (
    "Worthless blocks join at the head. If one stands further back there was a reason; and what does the search cost?"
)


class FreeKVCacheBlockQueue(engine.FreeKVCacheBlockQueue):
    def popleft(self) -> engine.KVCacheBlock:
        block = self._head.next_free
        while block is not self._tail:
            if block.block_hash is None:
                self.remove(block)
                return block
            block = block.next_free
        return super().popleft()
