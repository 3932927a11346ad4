"""`create_scheduler`: the core put together from a configuration, for the engine and for the
simulator.

Whoever has a step to plan, with a model or without one, gets the same scheduler over the same
memory. The easy thing to get wrong would be a second list of these arguments, and a simulation that
plans otherwise than the engine.
"""

from minivllm.config import EngineConfig
from minivllm.core.admission import AdmissionPolicy
from minivllm.core.contiguous import create_kv_cache_manager
from minivllm.core.request_queue import create_request_queue
from minivllm.core.scheduler import Scheduler
from minivllm.events.bus import EventBus


def create_scheduler(
    config: EngineConfig, num_blocks: int, max_model_len: int, bus: EventBus
) -> Scheduler:
    """A scheduler with a waiting queue and a pool of `num_blocks` blocks of its own."""
    config.check_whole_prompts_fit(max_model_len, config.max_num_batched_tokens)
    return Scheduler(
        create_kv_cache_manager(config, num_blocks, max_model_len, bus),
        create_request_queue(config.scheduling_policy),
        AdmissionPolicy(
            config.batching, config.batch_delay, config.batch_size or config.max_num_seqs
        ),
        max_num_seqs=config.max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_model_len=max_model_len,
        enable_chunked_prefill=config.enable_chunked_prefill,
        bus=bus,
    )
