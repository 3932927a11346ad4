"""What an attention backend is: the owner of the KV cache's layout and of the attention over it.

The decoder hands over a layer's queries, keys and values and knows nothing of paging; the model
runner describes the step in numpy (`CommonAttentionMetadata`) and knows nothing of layouts. In
between a backend allocates the cache in the layout that its operations read best, and turns the
description into whatever its operations want, once a step and not once a layer.

The rule that no backend may break: in every layer, all keys and values of the step are written
before any are read, because a sequence may share blocks that another one fills in this very step.

Source: vLLM `vllm/v1/attention/backend.py` (`AttentionBackend`, `AttentionMetadataBuilder`,
`AttentionImpl`).
"""

from typing import TYPE_CHECKING, Any, Protocol

import torch

from minivllm.core.scheduler_output import BlockCopy
from minivllm.errors import ConfigError, TritonMissingError
from minivllm.runtime.input_batch import CommonAttentionMetadata
from minivllm.runtime.kv_cache import KVCacheSpec
from minivllm.runtime.progress import Progress, print_progress

if TYPE_CHECKING:
    from minivllm.runtime.attention.triton_backend import TritonAttentionBackend


class AttentionBackend(Protocol):
    """A KV cache and the attention over it."""

    def build(self, common: CommonAttentionMetadata) -> Any:
        """Prepare a step; what it returns is passed back to `forward`."""

    def copy_blocks(self, copies: list[BlockCopy]) -> None:
        """Make the step's block copies, in all layers and before anything is written: all sources
        are read first.
        """

    def forward(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        metadata: Any,
        cos_sin: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """Write a layer's keys and values to the cache, then attend.

        query: [num_tokens, num_heads, head_size]; key, value: [num_tokens, num_kv_heads, head_size]
        cos_sin: two of [num_tokens, 1, head_size], if queries and keys are still to be rotated (by
        kernels alone) Returns [num_tokens, num_heads, head_size]; good until the next call.
        """

    def attention_mass(
        self,
        query: torch.Tensor,
        key_cache: torch.Tensor,
        block_tables: torch.Tensor,
        seq_lens: torch.Tensor,
        scale: float,
    ) -> torch.Tensor:
        """See `minivllm.kernels.reference.attention_mass`; asked for only where somebody wants to
        see it.
        """

    def key_cache(self, layer: int) -> torch.Tensor:
        """A layer's keys: [num_blocks, block_size, num_kv_heads, head_size], a view."""

    def value_cache(self, layer: int) -> torch.Tensor:
        """A layer's values, as `key_cache`."""


def choose_attention_backend(
    name: str, spec: KVCacheSpec, device: torch.device, tell: Progress = print_progress
) -> str:
    """What `name` means here: `torch`, `cpu`, or `triton:` and a version of the kernels.

    `auto` takes Triton on a CUDA device; where it cannot run there, `tell` hears why and torch
    serves. On a CPU it takes `cpu` if that can be had: many machines have no compiler, and nothing
    is wrong with them. Raises `ConfigError` if what is asked for by name cannot run.
    """
    if name == "torch":
        return "torch"
    if name == "cpu" or (name == "auto" and device.type != "cuda"):
        return _choose_on_cpu(name, spec, device)
    rung = name.partition(":")[2] or ("unified" if device.type == "cuda" else "split")
    try:
        _import_triton_backend().check_support(rung, spec, device)
    except ConfigError as error:
        if name != "auto":
            raise
        tell(f"Attention runs in torch, slower than it could: {error}")
        return "torch"
    return f"triton:{rung}"


def has_decode_graphs(name: str) -> bool:
    """Whether steps of decodes alone can be replayed as CUDA graphs; `name` as
    `choose_attention_backend` returns it.
    """
    return name in ("triton:static", "triton:unified")


def _choose_on_cpu(name: str, spec: KVCacheSpec, device: torch.device) -> str:
    from minivllm.runtime.attention.cpu_backend import CpuAttentionBackend

    try:
        CpuAttentionBackend.check_support(spec, device)
    except ConfigError:
        if name == "cpu":
            raise
        return "torch"
    return "cpu"


def get_attention_backend(
    name: str,
    spec: KVCacheSpec,
    num_blocks: int,
    device: torch.device,
    num_heads: int,
    max_num_seqs: int,
    max_model_len: int,
) -> AttentionBackend:
    """The backend of that name (see `choose_attention_backend`), with a cache of `num_blocks`
    blocks allocated.

    num_heads: the model's query heads; max_num_seqs, max_model_len: what no step exceeds
    Raises `ConfigError` if the backend cannot run here, or not with this model.
    """
    kind, _, rung = choose_attention_backend(name, spec, device).partition(":")
    if kind == "triton":
        return _import_triton_backend()(
            rung, spec, num_blocks, device, num_heads, max_num_seqs, max_model_len
        )
    if kind == "cpu":
        from minivllm.runtime.attention.cpu_backend import CpuAttentionBackend

        return CpuAttentionBackend(spec, num_blocks, device, num_heads)
    from minivllm.runtime.attention.torch_backend import TorchAttentionBackend

    return TorchAttentionBackend(spec, num_blocks, device)


def _import_triton_backend() -> "type[TritonAttentionBackend]":
    """Imported when it is asked for: not every machine has Triton, and it decides at import how it
    will run.
    """
    try:
        from minivllm.runtime.attention.triton_backend import TritonAttentionBackend
    except ModuleNotFoundError as error:
        raise TritonMissingError(
            "attention_backend triton", "use attention_backend='torch'"
        ) from error
    # TritonModeError, which cannot be named where its module cannot be imported
    except ImportError as error:
        raise ConfigError(str(error)) from error
    return TritonAttentionBackend
