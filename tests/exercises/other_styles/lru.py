"""The count says whether the queue is empty; neighbours have names."""

from minivllm.core.block_pool import BlockPoolError
from minivllm.events import types as ev


class FreeKVCacheBlockQueue:
    def popleft(self):
        if self.num_free_blocks > 0:
            first = self._head.next_free
            self.remove(first)
            return first
        raise BlockPoolError("There is no free block.")

    def remove(self, block):
        before, after = block.prev_free, block.next_free
        if before is None or after is None:
            raise BlockPoolError("This block is not free.")
        block.next_free = None
        block.prev_free = None
        after.prev_free = before
        before.next_free = after
        self.num_free_blocks = self.num_free_blocks - 1

    def _insert_between(self, left, block, right):
        if block.prev_free is None and block.next_free is None:
            right.prev_free = block
            left.next_free = block
            block.next_free = right
            block.prev_free = left
            self.num_free_blocks = self.num_free_blocks + 1
            return
        raise BlockPoolError("This block is free already.")


class BlockPool:
    def _put_back(self, block):
        end = "head" if block.block_hash is None else "tail"
        join = {"head": self.free_queue.prepend, "tail": self.free_queue.append}[end]
        join(block)
        if self._bus.active:
            self._bus.emit(ev.BlockFreed, block.block_id, end)
