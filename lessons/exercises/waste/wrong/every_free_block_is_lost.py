"""With reservations, all free blocks are external waste."""

from minivllm.events import kv_usage as engine

HINT = (
    "The next request can use a run of free neighbours that is long enough. Only blocks that no"
    " request can use are wasted."
)


class KVUsageMeter(engine.KVUsageMeter):
    def _num_useless_blocks(self) -> int:
        if self.fold.header.config.get("kv_cache_allocator") != "contiguous":
            return 0
        return sum(block.ref_cnt == 0 for block in self.fold.blocks)
