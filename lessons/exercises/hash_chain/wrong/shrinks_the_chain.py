"""After a call the chain has the names of the tokens asked for, and no others."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "Asked for fewer tokens than before, which names have become wrong? Those that are there stay."
)


class KVCacheManager(engine.KVCacheManager):
    def _extend_hashes(self, sequence: Sequence, num_tokens: int) -> None:
        del sequence.block_hashes[num_tokens // self.block_size :]
        super()._extend_hashes(sequence, num_tokens)
