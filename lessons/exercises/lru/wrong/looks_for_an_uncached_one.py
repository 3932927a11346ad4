"""popleft searches the whole queue for an uncached block before it takes a cached one."""

from minivllm.core import block_pool as engine

HINT = (
    "_put_back decides where a block joins the queue, and popleft takes the head. What does a"
    " search through the queue cost?"
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
