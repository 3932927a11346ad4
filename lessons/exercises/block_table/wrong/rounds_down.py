"""n tokens need n // block_size blocks."""

from minivllm.core import kv_cache_manager as engine

HINT = (
    "A block holds four tokens and there is one block. Where is the fifth token stored? Round up."
)


class KVCacheManager(engine.KVCacheManager):
    def num_blocks_for(self, num_tokens: int) -> int:
        return num_tokens // self.block_size
