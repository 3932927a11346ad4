"""How large a KV cache block is, and how many blocks fit into memory.

Source: vLLM `vllm/v1/kv_cache_interface.py` (`FullAttentionSpec`), `kv_cache_utils.py`
(`get_num_blocks`).
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from minivllm.config import SCALE_BYTES, KVCacheDtype, stored_head_bytes
from minivllm.errors import ConfigError
from minivllm.runtime.model.model_config import ModelConfig
from minivllm.text import format_memory

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class KVCacheSpec:
    """The shape of the KV cache: numbers per token and tokens per block."""

    num_layers: int
    num_kv_heads: int
    head_size: int
    block_size: int
    dtype: torch.dtype
    """Dtype of queries, keys and values as the model computes them."""
    kv_cache_dtype: KVCacheDtype = "auto"
    draft_bytes_per_block: int = 0
    """Bytes that a draft model's KV cache needs for each block besides."""
    sliding_windows: tuple[int, ...] = ()
    """See `ModelConfig.windows`; empty if no layer has a window."""

    @classmethod
    def of(
        cls,
        config: ModelConfig,
        block_size: int,
        dtype: torch.dtype,
        kv_cache_dtype: KVCacheDtype = "auto",
    ) -> "KVCacheSpec":
        """Raises `ConfigError` if the heads are too odd for int8."""
        shape = (config.num_hidden_layers, config.num_key_value_heads, config.head_size)
        spec = cls(*shape, block_size, dtype, kv_cache_dtype, sliding_windows=config.windows)
        if spec.has_scales and spec.head_size % SCALE_BYTES:
            raise ConfigError(
                f"kv_cache_dtype {kv_cache_dtype} needs a head size that is a multiple of"
                f" {SCALE_BYTES}, but this model's is {spec.head_size}: use kv_cache_dtype='auto'."
            )
        return spec

    @property
    def windows(self) -> tuple[int, ...]:
        """For each layer, how many tokens a token sees, itself included; 0 for all."""
        return self.sliding_windows or (0,) * self.num_layers

    @property
    def has_scales(self) -> bool:
        """Whether keys and values are stored as int8, with a scale for each token and head."""
        return self.kv_cache_dtype == "int8_per_token_head"

    @property
    def stored_dtype(self) -> torch.dtype:
        """Dtype of the stored numbers."""
        if self.has_scales:
            return torch.int8
        return torch.bfloat16 if self.kv_cache_dtype == "bfloat16" else self.dtype

    @property
    def stored_name(self) -> str:
        """What `kv_cache_dtype` stands for: `auto` becomes `float32`, for example."""
        if self.kv_cache_dtype != "auto":
            return self.kv_cache_dtype
        return str(self.dtype).removeprefix("torch.")

    @property
    def bytes_per_block(self) -> int:
        """Bytes for the keys and values of `block_size` tokens in all layers, of both models."""
        num_heads = 2 * self.num_layers * self.num_kv_heads * self.block_size
        own = num_heads * stored_head_bytes(self.stored_name, self.head_size)
        return own + self.draft_bytes_per_block


def num_blocks_that_fit(spec: KVCacheSpec, num_bytes: int) -> int:
    """Return how many blocks fit into `num_bytes`. Raises `ConfigError` if not even one fits."""
    num_blocks = num_bytes // spec.bytes_per_block
    if num_blocks < 1:
        raise ConfigError(
            f"{format_memory(max(num_bytes, 0))} for the KV cache cannot hold even one block of"
            f" {spec.block_size} tokens ({format_memory(spec.bytes_per_block)}{_drafts(spec)});"
            " raise kv_cache_memory_bytes (on CUDA also gpu_memory_utilization) or lower"
            " block_size."
        )
    return num_blocks


def require_cpu_memory(spec: KVCacheSpec, num_blocks: int) -> None:
    """Raise `ConfigError` if the free memory is too small: Linux would kill the process later."""
    need, available = num_blocks * spec.bytes_per_block, available_cpu_memory()
    if available is not None and need > available:
        raise ConfigError(
            f"A KV cache of {num_blocks} blocks needs {format_memory(need)}"
            f"{_drafts(spec, num_blocks)}, but {format_memory(available)} are free; lower"
            " num_gpu_blocks_override or kv_cache_memory_bytes."
        )


def _drafts(spec: KVCacheSpec, num_blocks: int = 1) -> str:
    """Name the draft model's share of `num_blocks` blocks, if there is a draft model."""
    if not spec.draft_bytes_per_block:
        return ""
    size = format_memory(num_blocks * spec.draft_bytes_per_block)
    return f", of which the draft model needs {size}"


def default_cpu_cache_bytes() -> int:
    """Return 1 GiB, or half of the free memory if that is less."""
    available = available_cpu_memory()
    return GIB if available is None else min(GIB, available // 2)


def available_cpu_memory(root: Path = Path("/")) -> int | None:
    """Return how many bytes this process can still allocate without swapping; None if unknown: the
    machine's available memory, or what is left of the container's limit (cgroup v2).
    """
    limits = (_machine_memory(root), _container_memory(root))
    return min((limit for limit in limits if limit is not None), default=None)


def _machine_memory(root: Path) -> int | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = dict(line.split(":", 1) for line in lines).get("MemAvailable")
    return None if found is None else int(found.split()[0]) * 1024  # "kB" in it means KiB


def _container_memory(root: Path) -> int | None:
    folder = root / "sys/fs/cgroup"
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
        stats = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except OSError:
        return None
    # The page cache counts as used, but the kernel drops it on demand.
    return None if limit == "max" else max(int(limit) - used + int(stats["inactive_file"]), 0)
