"""A fork needs its own block at once, so the partial last block is copied when forking."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = "Most forks of a beam search end before they write. When is the last moment to make a copy?"


class KVCacheManager(engine.KVCacheManager):
    def fork(self, parent: Sequence, child: Sequence) -> None:
        super().fork(parent, child)
        if parent.num_computed_tokens % self.block_size:
            self._copy_on_write(child)
