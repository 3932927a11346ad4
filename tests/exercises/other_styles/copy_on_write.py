"""pop and append for the table; touch after the copy of the list."""

from minivllm.core.scheduler_output import BlockCopy
from minivllm.events import types as ev


class KVCacheManager:
    def writes_to_shared_block(self, sequence):
        position = sequence.num_computed_tokens
        if sequence.num_cached_tokens > position:
            position = sequence.num_cached_tokens
        for block in sequence.block_table[position // self.block_size :][:1]:
            return block.ref_cnt > 1
        return False

    def _copy_on_write(self, sequence):
        own = self.pool.pop_free_block()
        shared = sequence.block_table.pop()
        sequence.block_table.append(own)
        self._copies.update({own.block_id: BlockCopy(src=shared.block_id, dst=own.block_id)})
        if self._bus.active:
            index = sequence.block_table.index(own)
            event = (shared.block_id, own.block_id, sequence.seq_id, index)
            self._bus.emit(ev.BlockCopied, *event)
        self.num_copied_blocks += 1
        self.pool.release(shared)

    def fork(self, parent, child):
        child.num_hashed_blocks = parent.num_hashed_blocks
        child.block_hashes = parent.block_hashes[:]
        child.block_table.extend(parent.block_table)
        for block in child.block_table:
            self.pool.touch(block)
