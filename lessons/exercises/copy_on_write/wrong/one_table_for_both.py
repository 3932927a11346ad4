"""Parent and child have the same blocks, so they can use the same list."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "The child appends a block to its table. What is in the parent's table afterwards? Copy the"
    " list, not the blocks."
)


class KVCacheManager(engine.KVCacheManager):
    def fork(self, parent: Sequence, child: Sequence) -> None:
        super().fork(parent, child)
        child.block_table = parent.block_table
