"""With reservations, free blocks are external waste."""

from minivllm.events import kv_usage as engine

HINT = (
    "A run of free neighbours that is long enough will take the next request. Only what cannot is"
    " wasted."
)


class KVUsageMeter(engine.KVUsageMeter):
    def _num_useless_blocks(self) -> int:
        if self.fold.header.config.get("kv_cache_allocator") != "contiguous":
            return 0
        return sum(block.ref_cnt == 0 for block in self.fold.blocks)
