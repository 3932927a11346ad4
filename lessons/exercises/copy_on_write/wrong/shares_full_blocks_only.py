"""Only full blocks can be shared, because the others are still written to."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "A partial block holds tokens that the child has too. It can be shared until a sequence writes"
    " to it. Which one makes the copy then?"
)


class KVCacheManager(engine.KVCacheManager):
    def fork(self, parent: Sequence, child: Sequence) -> None:
        for block in parent.block_table[: parent.num_computed_tokens // self.block_size]:
            self.pool.touch(block)
            child.block_table.append(block)
        child.block_hashes = list(parent.block_hashes)
        child.num_hashed_blocks = parent.num_hashed_blocks
