"""So many tokens need tokens // block_size blocks."""

from minivllm.core import kv_cache_manager as engine

HINT = "Where does the fifth token lie, if a block holds four and there is one block? Round up."


class KVCacheManager(engine.KVCacheManager):
    def num_blocks_for(self, num_tokens: int) -> int:
        return num_tokens // self.block_size
