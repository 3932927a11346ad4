"""A sequence that shares any block has to copy before it writes."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "Full blocks can stay shared, because no sequence writes into them. Which single block gets the"
    " next token?"
)


class KVCacheManager(engine.KVCacheManager):
    def writes_to_shared_block(self, sequence: Sequence) -> bool:
        return any(block.ref_cnt > 1 for block in sequence.block_table)
