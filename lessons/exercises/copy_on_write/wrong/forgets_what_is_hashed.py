"""The hash chain belongs to the sequence that computed it; the child starts its own."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "The shared full blocks are already registered in the prefix cache. What does the child's"
    " num_hashed_blocks say about them?"
)


class KVCacheManager(engine.KVCacheManager):
    def fork(self, parent: Sequence, child: Sequence) -> None:
        super().fork(parent, child)
        child.block_hashes = []
        child.num_hashed_blocks = 0
