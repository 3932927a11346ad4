"""`AttentionBackend`: owns the KV cache, its layout and the attention over it.

A backend chooses the layout that its operations read fastest. Once per step, it converts the
runner's description of the batch (`CommonAttentionMetadata`) to its own metadata. Once per layer,
it gets queries, keys and values from the decoder, which does not know about paging, and rotates
queries and keys by the angles of their positions.

Every backend must write all keys and values of a layer before it reads any of them, because a
sequence can share blocks that another sequence fills in the same step.

Source: vLLM `vllm/v1/attention/backend.py` (`AttentionBackend`, `AttentionMetadataBuilder`,
`AttentionImpl`).
"""

from typing import Any, Protocol

import torch

from minivllm import runtime
from minivllm.core.scheduler_output import BlockCopy
from minivllm.errors import ConfigError, TritonMissingError
from minivllm.runtime.attention.cpu_backend import CpuAttentionBackend
from minivllm.runtime.attention.torch_backend import TorchAttentionBackend
from minivllm.runtime.input_batch import CommonAttentionMetadata
from minivllm.runtime.kv_cache import KVCacheSpec
from minivllm.runtime.progress import Progress, print_progress


class AttentionBackend(Protocol):
    """A KV cache and the attention over it."""

    kv_caches: list[torch.Tensor]
    """[num_blocks, ...] each: together, keys, values and scales of all layers."""

    def build(self, common: CommonAttentionMetadata) -> Any:
        """Prepare a step; the result is passed to `forward`."""

    def copy_blocks(self, copies: list[BlockCopy]) -> None:
        """Copy blocks in all layers; all sources are read before any destination is written."""

    def forward(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cos_sin: tuple[torch.Tensor, torch.Tensor],
        metadata: Any,
    ) -> torch.Tensor:
        """Rotate queries and keys, write keys and values to the cache, then attend.

        query: [num_tokens, num_heads, head_size]; a backend may rotate it in place
        key, value: [num_tokens, num_kv_heads, head_size]; the same holds for `key`
        cos_sin: two tensors [num_tokens, 1, head_size], see `minivllm.kernels.reference_ops.rotate`

        Returns [num_tokens, num_heads, head_size], valid until the next call.
        """

    def attention_mass(
        self, layer: int, query: torch.Tensor, block_tables: torch.Tensor, seq_lens: torch.Tensor
    ) -> torch.Tensor:
        """See `minivllm.kernels.reference.attention_mass`; only for the dashboard."""

    def read_blocks(self, layer: int, block_ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy keys and values of blocks, as attention reads them; only for the dashboard.

        Each is [len(block_ids), block_size, num_kv_heads, head_size].
        """


def choose_attention_backend(
    name: str, spec: KVCacheSpec, device: torch.device, tell: Progress = print_progress
) -> str:
    """Resolve `name` on this machine to `torch`, `cpu`, or `triton:` and a kernel version.

    On a CUDA device, `auto` takes Triton; if Triton cannot run, it reports the reason and takes
    torch. On a CPU, `auto` takes `cpu`, else torch without a message, because many machines have no
    compiler. Raises `ConfigError` if the caller named a backend that cannot run.
    """
    if name == "torch":
        return "torch"
    on_cpu = name == "cpu" or (name == "auto" and device.type != "cuda")
    version = name.partition(":")[2] or ("unified" if device.type == "cuda" else "split")
    try:
        if on_cpu:
            CpuAttentionBackend.check_support(spec, device)
            return "cpu"
        _triton_backend().check_support(version, spec, device)
    except ConfigError as error:
        if name != "auto":
            raise
        if not on_cpu:
            tell(f"Attention falls back to the slower torch backend: {error}")
        return "torch"
    return f"triton:{version}"


def get_attention_backend(
    name: str,
    spec: KVCacheSpec,
    num_blocks: int,
    device: torch.device,
    num_heads: int,
    max_num_rows: int,
    max_model_len: int,
    fuses_rotation: bool = False,
) -> AttentionBackend:
    """Make the backend of that name (see `choose_attention_backend`) and allocate its cache.

    num_heads: the model's query heads
    max_num_rows, max_model_len: upper bounds for steps that run as CUDA graphs
    fuses_rotation: whether one Triton kernel rotates and writes the cache; else torch rotates

    Raises `ConfigError` if the backend does not support this machine or this model.
    """
    kind, _, version = choose_attention_backend(name, spec, device).partition(":")
    if kind == "triton":
        return _triton_backend()(
            version, spec, num_blocks, device, num_heads, max_num_rows, max_model_len,
            fuses_rotation,
        )  # fmt: skip
    if kind == "cpu":
        return CpuAttentionBackend(spec, num_blocks, device, num_heads)
    return TorchAttentionBackend(spec, num_blocks, device)


def _triton_backend() -> Any:
    """The class; Triton can be missing, and chooses its mode when it is imported."""
    try:
        return runtime.TritonAttentionBackend
    except ModuleNotFoundError as error:
        raise TritonMissingError(
            "attention_backend triton", "use attention_backend='torch'"
        ) from error
    # a TritonModeError, whose module cannot be imported here
    except ImportError as error:
        raise ConfigError(str(error)) from error
