"""A sequence that shares any block at all has to copy before it writes."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "Full blocks are shared for ever and never written. Which one block does the next token fall"
    " into?"
)


class KVCacheManager(engine.KVCacheManager):
    def writes_to_shared_block(self, sequence: Sequence) -> bool:
        return any(block.ref_cnt > 1 for block in sequence.block_table)
