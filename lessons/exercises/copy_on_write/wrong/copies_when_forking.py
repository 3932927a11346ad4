"""A fork needs a block of its own at once, so the last partial block is copied when forking."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "Most forks of a beam search die before they write. When is the last moment at which a copy can"
    " still be made?"
)


class KVCacheManager(engine.KVCacheManager):
    def fork(self, parent: Sequence, child: Sequence) -> None:
        super().fork(parent, child)
        if parent.num_computed_tokens % self.block_size:
            self._copy_on_write(child)
