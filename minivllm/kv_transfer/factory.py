"""`create_connector`: an engine's connector, from its `kv_transfer_config`.

Source: vLLM `vllm/distributed/kv_transfer/kv_connector/factory.py`.
"""

from minivllm import kv_transfer
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
        copier = kv_transfer.HostMemory(caches, num_blocks)
    gigabytes = block_bytes / 1e9 if clock.name == "virtual" else 0.0
    link = Link(clock, gigabytes / options.gigabytes_per_second)
    # Two steps' worth of blocks, as in vLLM.
    num_ahead = 2 * -(-config.max_num_batched_tokens // config.block_size)
    return SimpleCPUOffloadConnector(
        scheduler, bus, num_blocks, copier, link, num_ahead if options.lazy_offload else None
    )
