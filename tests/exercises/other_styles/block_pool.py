"""A case for each count."""

from minivllm.core.block_pool import BlockPoolError


class BlockPool:
    def _hand_out(self, block):
        if block.block_hash is not None:
            self.evict(block)
        block.ref_cnt = 1
        return block

    def touch(self, block):
        if block.ref_cnt:
            block.ref_cnt += 1
            return False
        self.free_queue.remove(block)
        block.ref_cnt = 1
        return True

    def release(self, block):
        match block.ref_cnt:
            case 0:
                raise BlockPoolError("Nobody has this block.")
            case 1:
                block.ref_cnt = 0
                self._put_back(block)
            case owners:
                block.ref_cnt = owners - 1
