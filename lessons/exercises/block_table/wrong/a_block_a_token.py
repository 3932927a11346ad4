"""Each token takes a block."""

from minivllm.core import kv_cache_manager as engine

HINT = "A block holds block_size tokens. How many does each of your blocks hold?"


class KVCacheManager(engine.KVCacheManager):
    def num_blocks_for(self, num_tokens: int) -> int:
        return num_tokens
