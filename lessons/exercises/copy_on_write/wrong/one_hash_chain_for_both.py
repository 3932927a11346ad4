"""Parent and child have the same tokens so far, so they can use the same list of hashes."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "Both continue with different tokens, and each extends its own hash chain. If they share the"
    " list, whose hash is the next entry?"
)


class KVCacheManager(engine.KVCacheManager):
    def fork(self, parent: Sequence, child: Sequence) -> None:
        super().fork(parent, child)
        child.block_hashes = parent.block_hashes
