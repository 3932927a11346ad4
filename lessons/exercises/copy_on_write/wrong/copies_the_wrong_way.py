"""The copy goes from the new block to the shared one."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import BlockCopy

HINT = (
    "The tokens are in the shared block, and the new block is empty. Which one is src, and which"
    " one is dst?"
)


class KVCacheManager(engine.KVCacheManager):
    def _copy_on_write(self, sequence: Sequence) -> None:
        super()._copy_on_write(sequence)
        dst, copy = self._copies.popitem()
        self._copies[dst] = BlockCopy(copy.dst, copy.src)
