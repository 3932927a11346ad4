"""`ContiguousKVCacheManager`: KV cache memory as it was allocated before paging, as a baseline.

On admission, a sequence gets one run of neighbouring blocks for `max_model_len` tokens, and keeps
it until the end. A run is always long enough, so no sequence is preempted. But most of its blocks
are never used (internal fragmentation), and a short run of free blocks is of no use to any sequence
(external fragmentation).

Only the allocation differs from the paged manager, so the same tools measure both. Runs cannot
share blocks, so there is no prefix caching, and requests with several sequences are refused.

Source: section 3.1 of the PagedAttention paper (Kwon et al., 2023), "Orca (Max)".
"""

from itertools import groupby

from minivllm.config import EngineConfig
from minivllm.core.block_pool import BlockPool, KVCacheBlock
from minivllm.core.kv_cache_manager import ComputedBlocks, KVCacheManager, Shortage
from minivllm.core.request import Sequence
from minivllm.errors import ConfigError
from minivllm.events import types as ev
from minivllm.events.bus import EventBus


class ContiguousKVCacheManager(KVCacheManager):
    """Gives each sequence one run of blocks, long enough for the longest sequence."""

    def __init__(self, pool: BlockPool, block_size: int, max_model_len: int, bus: EventBus) -> None:
        super().__init__(pool, block_size, enable_prefix_caching=False, bus=bus)
        self._num_reserved = self.num_blocks_for(max_model_len)
        if self._num_reserved > len(pool.blocks):
            raise ConfigError(
                f"The contiguous allocator reserves max_model_len ({max_model_len} tokens,"
                f" {self._num_reserved} blocks) for each sequence, but has {len(pool.blocks)}:"
                " lower it, or raise num_gpu_blocks_override or kv_cache_memory_bytes."
            )

    def table_length(self, num_tokens: int) -> int:
        return self._num_reserved

    def shortage_for(
        self, sequence: Sequence, num_tokens: int, computed: ComputedBlocks, num_copies: int = 0
    ) -> Shortage | None:
        if sequence.block_table:
            return None
        longest = max(map(len, self._free_runs()), default=0)
        if longest >= self._num_reserved:
            return None
        return Shortage(self._num_reserved, longest, "no_contiguous_run")

    def _extend_table(self, sequence: Sequence, num_tokens: int) -> None:
        """Reserve the whole run at the sequence's first call; later calls change nothing."""
        if sequence.block_table:
            return
        first_fit = next(run for run in self._free_runs() if len(run) >= self._num_reserved)
        for logical, block in enumerate(first_fit[: self._num_reserved]):
            self.pool.take_free_block(block)
            if self._bus.active:
                self._bus.emit(ev.BlockAllocated, block.block_id, sequence.seq_id, logical)
            sequence.block_table.append(block)

    def _free_runs(self) -> list[list[KVCacheBlock]]:
        """Return all free blocks as runs of neighbours, by id. O(blocks); called on admission."""
        runs = groupby(self.pool.blocks, lambda block: block.ref_cnt == 0)
        return [list(run) for is_free, run in runs if is_free]


def create_kv_cache_manager(
    config: EngineConfig, num_blocks: int, max_model_len: int, bus: EventBus
) -> KVCacheManager:
    """Create the manager named by `config.kv_cache_allocator`, with its own block pool."""
    pool = BlockPool(num_blocks, bus)
    if config.kv_cache_allocator == "contiguous":
        return ContiguousKVCacheManager(pool, config.block_size, max_model_len, bus)
    return KVCacheManager(pool, config.block_size, bool(config.enable_prefix_caching), bus)
