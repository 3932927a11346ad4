"""A small KV cache manager with its own sequences, for exercises about the manager.

The bus has a listener, because events are made only for a listener.
"""

from typing import Any

from minivllm.clock import VirtualClock
from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Request
from minivllm.events.bus import EventBus
from minivllm.sampling_params import SamplingParams


def manager_of(num_blocks: int, block_size: int, enable_prefix_caching: bool = False) -> Any:
    bus = EventBus(VirtualClock())
    bus.subscribe(lambda event: None)
    return KVCacheManager(BlockPool(num_blocks, bus), block_size, enable_prefix_caching, bus)


def sequence_of(
    number: int, token_ids: list[int] | None = None, cache_salt: str | None = None
) -> Any:
    return Request(
        f"r{number}", token_ids or [number], SamplingParams(), cache_salt=cache_salt
    ).sequences[0]


def manager_state(manager: Any, sequences: list[Any]) -> str:
    """Block tables, reference counts and the free queue, as one line."""
    tables = [[block.block_id for block in sequence.block_table] for sequence in sequences]
    counts = [block.ref_cnt for block in manager.pool.blocks]
    return f"tables {tables}; owners {counts}; free, next first: {manager.pool.free_queue.ids()}"
