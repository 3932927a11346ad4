"""Once the table points to the copy, the shared block needs no more attention."""

from minivllm.core import kv_cache_manager as engine
from minivllm.core.request import Sequence

HINT = (
    "Your sequence no longer uses the shared block. Does its ref_cnt say so? If not, its last owner"
    " makes a useless copy and the block is never freed."
)


class KVCacheManager(engine.KVCacheManager):
    def _copy_on_write(self, sequence: Sequence) -> None:
        shared = sequence.block_table[-1]
        shared.ref_cnt += 1
        super()._copy_on_write(sequence)
