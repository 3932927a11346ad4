"""`create_connector`: an engine's connector, from its `kv_transfer_config`.

Source: vLLM `vllm/distributed/kv_transfer/kv_connector/factory.py`.
"""

import logging

from minivllm import kv_transfer
from minivllm.clock import Clock, SimulatedClock, VirtualClock
from minivllm.config import EngineConfig
from minivllm.core.scheduler import Scheduler
from minivllm.errors import ConfigError
from minivllm.events.bus import EventBus
from minivllm.kv_transfer.connector import KVConnector, Link
from minivllm.kv_transfer.consumer import KVConsumer
from minivllm.kv_transfer.host_tier import Copier, SimpleCPUOffloadConnector
from minivllm.kv_transfer.options import HostTierOptions, NixlOptions
from minivllm.kv_transfer.producer import KVProducer
from minivllm.kv_transfer.wire import RemoteFetch, listen


def create_connector(
    config: EngineConfig, runner: object, scheduler: Scheduler, clock: Clock, bus: EventBus
) -> KVConnector:
    """Create the connector that `config.kv_transfer_config` names.

    runner: a `minivllm.engine.runner.Runner`, whose `kv_caches` the connector reads and writes
    Raises `ConfigError` for an option that is invalid or needs too much memory.
    """
    transfer, caches = config.kv_transfer_config, runner.kv_caches
    is_apart = transfer.kv_connector == "NixlConnector"
    if is_apart == (transfer.kv_role == "kv_both"):
        roles = "kv_producer or kv_consumer" if is_apart else "kv_both"
        raise ConfigError(f"kv_role of {transfer.kv_connector} must be {roles}.")
    block_bytes = sum(cache[0].nbytes for cache in caches) or runner.block_bytes
    if is_apart:
        options = NixlOptions.of(transfer.kv_connector_extra_config)
        layouts = {f"{cache.dtype} {tuple(cache.shape[1:])}" for cache in caches}
        facts = {"model": runner.fingerprint, "block_size": str(config.block_size)}
        facts["KV cache"] = f"{len(caches)} x {', '.join(sorted(layouts))}"
        address = options.side_channel_host, options.side_channel_port
        parts = scheduler, bus, Link(clock, 0.0), kv_transfer.BlockBytes(caches)
        if transfer.kv_role == "kv_producer":
            producer = KVProducer(*parts, options.kv_lease_duration)
            listen(producer, address, facts, options.kv_lease_duration)
            return producer
        where = address, facts, options.kv_lease_duration, block_bytes
        fetch = lambda sequence, hashes: RemoteFetch(*where, hashes)  # noqa: E731
        return KVConsumer(*parts, fetch, _greet(RemoteFetch(*where, []), *address))
    options = HostTierOptions.of(transfer.kv_connector_extra_config)
    num_blocks = options.num_blocks(runner.num_blocks, block_bytes)
    copier = kv_transfer.HostMemory(caches, num_blocks) if caches else Copier()
    is_modelled = isinstance(clock, VirtualClock | SimulatedClock)
    link = Link(clock, is_modelled * block_bytes / (options.gigabytes_per_second * 1e9))
    # Two steps' worth of blocks, as in vLLM.
    num_ahead = 2 * -(-config.max_num_batched_tokens // config.block_size)
    ahead = num_ahead if options.lazy_offload else None
    return SimpleCPUOffloadConnector(scheduler, bus, num_blocks, copier, link, ahead)


def _greet(greeting: RemoteFetch, host: str, port: int) -> str:
    """Return the producer's name. Raises `ConfigError` if it refuses."""
    greeting.thread.join(2.0)
    if greeting.refusal:
        raise ConfigError(f"kv_transfer_config: {greeting.refusal}")
    if greeting.refusal is None:
        log = logging.getLogger("minivllm.engine.engine")
        log.warning("no producer answers at %s:%s yet: prompts are computed here", host, port)
    return f"{host}:{port}"
