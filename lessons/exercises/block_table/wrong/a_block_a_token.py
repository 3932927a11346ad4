"""A token is a block."""

from minivllm.core import kv_cache_manager as engine

HINT = "A block holds block_size tokens: how many of them does yours hold?"


class KVCacheManager(engine.KVCacheManager):
    def num_blocks_for(self, num_tokens: int) -> int:
        return num_tokens
