"""The `kv_connector_extra_config` of each connector, with vLLM's names where vLLM has them."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from minivllm.checks import Positive
from minivllm.config import NestedConfig
from minivllm.errors import ConfigError
from minivllm.text import format_memory


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTierOptions(NestedConfig):
    """Of `SimpleCPUOffloadConnector`. Raises `ConfigError` for an invalid value."""

    option = "kv_connector_extra_config"
    cpu_bytes_to_use: Positive | None = None
    """Size of the host's blocks, in bytes. None: four times that of the KV cache."""
    num_cpu_blocks: Positive | None = None
    """Exact number of the host's blocks, in place of a size."""
    lazy_offload: bool = True
    """Copy a block when it is about to be evicted. Off (vLLM's default): when it is full."""
    gigabytes_per_second: Annotated[float, Meta(gt=0, le=10_000)] = 25.0
    """Bandwidth between host and GPU, for the virtual clock only: about that of PCIe 4.0 x16."""

    def __post_init__(self) -> None:
        NestedConfig.__post_init__(self)
        if self.cpu_bytes_to_use is not None and self.num_cpu_blocks is not None:
            raise ConfigError(
                "kv_connector_extra_config: cpu_bytes_to_use and num_cpu_blocks both say how large the"
                " host's memory is; leave one out."
            )

    def num_blocks(self, num_gpu_blocks: int, block_bytes: int) -> int:
        """Return the number of the host's blocks. Raises `ConfigError` if not one fits."""
        if self.num_cpu_blocks is not None or self.cpu_bytes_to_use is None:
            return self.num_cpu_blocks or 4 * num_gpu_blocks
        if not (number := self.cpu_bytes_to_use // max(block_bytes, 1)):
            raise ConfigError(
                f"kv_connector_extra_config: cpu_bytes_to_use ({self.cpu_bytes_to_use}) cannot hold"
                f" even one block ({format_memory(block_bytes)}); raise it."
            )
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class NixlOptions(NestedConfig):
    """Of `NixlConnector`. Raises `ConfigError` for an invalid value."""

    option = "kv_connector_extra_config"
    side_channel_host: str = "127.0.0.1"
    """Where the producer listens, and the consumer asks."""
    side_channel_port: Annotated[int, Meta(ge=1, le=65_535)] = 5600
    """The port there."""
    kv_lease_duration: Annotated[float, Meta(gt=0, le=86_400)] = 30.0
    """Seconds that a producer keeps a prompt's blocks, and that a consumer waits for them."""
