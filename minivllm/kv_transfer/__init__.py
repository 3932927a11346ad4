"""A second memory for keys and values: blocks leave the pool and come back.

    connector      what the core calls, and requests that own blocks and wait for them
    host_tier      a second pool with the same hashes, in the host's memory
    host_memory    its tensors, and the copies

Only an engine with a `kv_transfer_config` imports this room.

Source: vLLM `vllm/distributed/kv_transfer/`, `vllm/v1/simple_kv_offload/`.
"""

from minivllm.clock import Clock
from minivllm.config import EngineConfig
from minivllm.core.scheduler import Scheduler
from minivllm.events.bus import EventBus
from minivllm.kv_transfer.connector import KVConnector
from minivllm.kv_transfer.host_tier import Copier, Link, SimpleCPUOffloadConnector, num_cpu_blocks
from minivllm.kv_transfer.options import HostTierOptions


def create_connector(
    config: EngineConfig, runner: object, scheduler: Scheduler, clock: Clock, bus: EventBus
) -> KVConnector:
    """Create the connector that `config.kv_transfer_config` names.

    runner: a `minivllm.engine.runner.Runner`, whose `kv_caches` the connector reads and writes

    Raises `ConfigError` for an option that is invalid or needs too much memory.
    """
    options = HostTierOptions.of(config.kv_transfer_config.kv_connector_extra_config)
    caches = runner.kv_caches
    block_bytes = sum(cache[0].nbytes for cache in caches) or runner.block_bytes
    num_blocks = num_cpu_blocks(options, runner.num_blocks, block_bytes)
    copier = Copier()
    if caches:
        from minivllm.kv_transfer.host_memory import HostMemory

        copier = HostMemory(caches, num_blocks)
    gigabytes = block_bytes / 1e9 if clock.name == "virtual" else 0.0
    link = Link(clock, gigabytes / options.gigabytes_per_second)
    # Two steps' worth of blocks, as in vLLM.
    num_ahead = 2 * -(-config.max_num_batched_tokens // config.block_size)
    return SimpleCPUOffloadConnector(
        scheduler, bus, num_blocks, copier, link, num_ahead if options.lazy_offload else None
    )
