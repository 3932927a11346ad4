"""Parent and child have the same tokens so far, so they can have the same list of hashes."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "Both go on with different tokens and each extends its own hash chain. Whose hash is the next"
    " entry of a list they share?"
)


class KVCacheManager(engine.KVCacheManager):
    def fork(self, parent: Sequence, child: Sequence) -> None:
        super().fork(parent, child)
        child.block_hashes = parent.block_hashes
