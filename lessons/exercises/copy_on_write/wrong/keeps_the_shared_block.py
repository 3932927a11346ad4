"""Once the table points at the copy, the shared block needs no more attention."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "You have left the shared block. Does its number of owners know? If not, the last one copies"
    " for nobody and it is never freed."
)


class KVCacheManager(engine.KVCacheManager):
    def _copy_on_write(self, sequence: Sequence) -> None:
        shared = sequence.block_table[-1]
        shared.ref_cnt += 1
        super()._copy_on_write(sequence)
