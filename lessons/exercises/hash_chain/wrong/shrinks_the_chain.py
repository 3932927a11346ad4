"""After a call, the chain has hashes for exactly the requested tokens."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "If a call asks for fewer tokens than before, which hashes have become wrong? Keep the hashes"
    " that are there."
)


class KVCacheManager(engine.KVCacheManager):
    def _extend_hashes(self, sequence: Sequence, num_tokens: int) -> None:
        del sequence.block_hashes[num_tokens // self.block_size :]
        super()._extend_hashes(sequence, num_tokens)
