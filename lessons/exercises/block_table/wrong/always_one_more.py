"""To round up, divide and add one."""

from minivllm.core import kv_cache_manager as engine

HINT = "With eight tokens in blocks of four, is there anything in your third block?"


class KVCacheManager(engine.KVCacheManager):
    def num_blocks_for(self, num_tokens: int) -> int:
        return num_tokens // self.block_size + 1
