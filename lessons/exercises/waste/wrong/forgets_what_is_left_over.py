"""A free run is wasted only if it is shorter than a reservation."""

from itertools import groupby

from minivllm.events import kv_usage as engine

HINT = "A run of five takes one reservation of three. What happens to the other two blocks?"


class KVUsageMeter(engine.KVUsageMeter):
    def _num_useless_blocks(self) -> int:
        header = self.fold.header
        if header.config.get("kv_cache_allocator") != "contiguous":
            return 0
        num_reserved = -(-header.max_model_len // header.block_size)
        runs = groupby(self.fold.blocks, key=lambda block: block.ref_cnt == 0)
        lengths = [sum(1 for _ in blocks) for is_free, blocks in runs if is_free]
        return sum(length for length in lengths if length < num_reserved)
