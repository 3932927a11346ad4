"""`HostTierOptions`: the `kv_connector_extra_config` of `SimpleCPUOffloadConnector`."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from minivllm.checks import Positive, check_fields
from minivllm.config import NestedConfig
from minivllm.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTierOptions(NestedConfig):
    """Names are vLLM's where vLLM has the option. Raises `ConfigError` for an invalid value."""

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
        check_fields(self, ConfigError, "kv_connector_extra_config: ")
        if self.cpu_bytes_to_use is not None and self.num_cpu_blocks is not None:
            raise ConfigError(
                "kv_connector_extra_config: cpu_bytes_to_use and num_cpu_blocks both say how large the"
                " host's memory is; leave one out."
            )
