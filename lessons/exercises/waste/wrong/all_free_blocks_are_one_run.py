"""The number of free blocks says how many reservations fit."""

from minivllm.events import kv_usage as engine

HINT = (
    "Two blocks are free here and two there. Does a reservation of three fit? Its blocks must be"
    " neighbours."
)


class KVUsageMeter(engine.KVUsageMeter):
    def _num_useless_blocks(self) -> int:
        header = self.fold.header
        if header.config.get("kv_cache_allocator") != "contiguous":
            return 0
        num_reserved = -(-header.max_model_len // header.block_size)
        return sum(block.ref_cnt == 0 for block in self.fold.blocks) % num_reserved
