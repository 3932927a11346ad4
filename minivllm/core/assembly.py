"""Builds the scheduler and its memory from a configuration.

The engine and the simulator both get them here, so that a simulation plans exactly as the engine
does.
"""

from minivllm.config import EngineConfig
from minivllm.core.admission import AdmissionPolicy, RequestQueue, create_request_queue
from minivllm.core.block_pool import BlockPool
from minivllm.core.contiguous import ContiguousKVCacheManager
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.scheduler import Scheduler
from minivllm.core.scheduler_output import NO_DRAFTS, Drafter
from minivllm.events.bus import EventBus


def create_kv_cache_manager(
    config: EngineConfig, num_blocks: int, max_model_len: int, bus: EventBus
) -> KVCacheManager:
    """Create the manager named by `config.kv_cache_allocator`, with its own block pool."""
    pool = BlockPool(num_blocks, bus)
    if config.kv_cache_allocator == "contiguous":
        return ContiguousKVCacheManager(pool, config.block_size, max_model_len, bus)
    return KVCacheManager(pool, config.block_size, bool(config.enable_prefix_caching), bus)


def create_scheduler(
    config: EngineConfig,
    manager: KVCacheManager,
    max_model_len: int,
    bus: EventBus,
    drafter: Drafter = NO_DRAFTS,
    waiting: RequestQueue | None = None,
) -> Scheduler:
    """Create a scheduler for the memory of `manager`, with its own waiting queue.

    drafter: made for the same `manager`, `max_model_len` and `bus`
    waiting: an empty queue with a policy of its own; None makes one for `scheduling_policy`
    """
    config.check_whole_prompts_fit(max_model_len, config.max_num_batched_tokens)
    return Scheduler(
        manager,
        create_request_queue(config.scheduling_policy) if waiting is None else waiting,
        AdmissionPolicy(
            config.batching, config.batch_delay, config.batch_size or config.max_num_seqs
        ),
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_model_len=max_model_len,
        enable_chunked_prefill=config.enable_chunked_prefill,
        bus=bus,
        drafter=drafter,
    )
