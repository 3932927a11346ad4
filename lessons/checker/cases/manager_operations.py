"""A small KV cache manager or scheduler with its own sequences, for exercises."""

from typing import Any

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Request
from minivllm.core.scheduler import Scheduler
from minivllm.events.bus import EventBus
from minivllm.sampling_params import SamplingParams


def manager_of(
    num_blocks: int, block_size: int = 4, enable_prefix_caching: bool = False, kind: Any = None
) -> Any:
    bus = EventBus(VirtualClock())
    bus.subscribe(lambda event: None)  # events are made only for a listener
    kind = kind or KVCacheManager  # not as a default: the name is looked up at each call
    return kind(BlockPool(num_blocks, bus), block_size, enable_prefix_caching, bus)


def scheduler_of(manager: Any, max_model_len: int, kind: type | None = None, **options: Any) -> Any:
    kind = kind or Scheduler
    return kind(EngineConfig(**options), manager, max_model_len, manager._bus)


def sequence_of(
    number: int, token_ids: list[int] | None = None, cache_salt: str | None = None
) -> Any:
    return request_of(number, token_ids or [number], cache_salt=cache_salt).sequences[0]


def request_of(number: int, token_ids: list[int], **more: Any) -> Request:
    return Request(f"r{number}", token_ids, SamplingParams(), arrival_number=number, **more)


def table_of(sequence: Any) -> list[int]:
    return [block.block_id for block in sequence.block_table]


def manager_state(manager: Any, sequences: list[Any]) -> str:
    """Block tables, reference counts and the free queue, as one line."""
    tables = [table_of(sequence) for sequence in sequences]
    counts = [block.ref_cnt for block in manager.pool.blocks]
    return f"tables {tables}; owners {counts}; free, next first: {manager.pool.free_queue.ids()}"
