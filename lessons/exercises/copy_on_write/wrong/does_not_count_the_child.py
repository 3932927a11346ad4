"""A block table is only a list of numbers: copying it changes nothing about the blocks."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "The child uses the blocks, but ref_cnt does not count it. What happens to the blocks if the"
    " parent ends first?"
)


class KVCacheManager(engine.KVCacheManager):
    def fork(self, parent: Sequence, child: Sequence) -> None:
        child.block_table = list(parent.block_table)
        child.block_hashes = list(parent.block_hashes)
        child.num_hashed_blocks = parent.num_hashed_blocks
