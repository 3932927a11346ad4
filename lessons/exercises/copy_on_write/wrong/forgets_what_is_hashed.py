"""The hash chain belongs to whoever computed it; the child begins one of its own."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "The shared full blocks have their names already. What does num_hashed_blocks of the child say"
    " about them?"
)


class KVCacheManager(engine.KVCacheManager):
    def fork(self, parent: Sequence, child: Sequence) -> None:
        super().fork(parent, child)
        child.block_hashes = []
        child.num_hashed_blocks = 0
