"""A new block in the table is enough; the model will fill it."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "The new block is empty, but the old one held the block's first tokens. What tells the runner"
    " to copy them?"
)


class KVCacheManager(engine.KVCacheManager):
    def _copy_on_write(self, sequence: Sequence) -> None:
        super()._copy_on_write(sequence)
        self._copies.popitem()
