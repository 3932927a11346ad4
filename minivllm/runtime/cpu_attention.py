"""The attention backend `cpu`: as `torch`, but decodes read the cache in place, and rotation and writing are one pass.

What is left to torch is what torch is good at: large products (prefill chunks, prefixes that many sequences share). A decode is not
one. In torch its context is gathered into a padded copy first, and every query head is a product of its own; the kernels of
`minivllm.kernels.cpu_ops` walk the block table instead.

Easy to get wrong: rotating in place. Queries and keys may be views of the linear layer's output, which nobody else reads; who
wants to see queries (the attention mass, the x-ray) gets them rotated by the decoder and not here.
"""

from dataclasses import dataclass

import numpy as np
import torch

from minivllm.errors import ConfigError
from minivllm.kernels.cpu_library import CpuKernelsError, load_cpu_library
from minivllm.kernels.cpu_ops import CpuOps, why_unsupported
from minivllm.runtime.input_batch import CommonAttentionMetadata
from minivllm.runtime.kv_cache import KVCacheSpec
from minivllm.runtime.model_cache import default_cache_root
from minivllm.runtime.torch_attention import TorchAttentionBackend, TorchAttentionMetadata


def load_cpu_ops() -> CpuOps:
    """The kernels for this CPU, built if need be. Raises `ConfigError` where they cannot be had."""
    try:
        return CpuOps(load_cpu_library(default_cache_root() / "kernels"))
    except CpuKernelsError as error:
        raise ConfigError(f"attention_backend cpu cannot run here: {error} Use attention_backend='torch'.") from error


@dataclass(slots=True)
class PagedDecodes:
    """All sequences of a step with one query each, int64."""

    block_tables: torch.Tensor
    """[num_seqs, width], without the blocks that spans cover"""
    rows: torch.Tensor
    """[num_seqs], of the batch"""
    num_tokens: torch.Tensor
    """[num_seqs], in those blocks"""


@dataclass(slots=True)
class CpuAttentionMetadata(TorchAttentionMetadata):
    slots: torch.Tensor
    """[num_tokens], `NOT_WRITTEN` included"""


class CpuAttentionBackend(TorchAttentionBackend):
    """Owns the KV cache of all layers and attends over it with the CPU's own kernels."""

    def __init__(self, spec: KVCacheSpec, num_blocks: int, device: torch.device) -> None:
        super().__init__(spec, num_blocks, device)
        self._ops = load_cpu_ops()

    @staticmethod
    def check_support(spec: KVCacheSpec, device: torch.device) -> None:
        """Raises `ConfigError` if the backend cannot run on `device`, or not with such heads."""
        why = f"the device is {device.type}." if device.type != "cpu" else why_unsupported(spec.dtype, spec.head_size)
        if why is not None:
            raise ConfigError(f"attention_backend cpu cannot run here: {why} Use attention_backend='torch'.")
        load_cpu_ops()

    def build(self, common: CommonAttentionMetadata) -> CpuAttentionMetadata:
        """See `AttentionBackend.build`."""
        metadata = super().build(common)
        return CpuAttentionMetadata(
            metadata.written_rows,
            metadata.written_slots,
            metadata.chunks,
            metadata.decodes,
            metadata.spans,
            self._tensor(common.slot_mapping),
        )

    def _decode_buckets(
        self, common: CommonAttentionMetadata, members: np.ndarray, num_covered: np.ndarray
    ) -> list[PagedDecodes]:
        """One for all: nothing is padded, so lengths need not be alike."""
        if not len(members):
            return []
        covered = num_covered[members]
        num_tokens = common.num_computed_tokens[members] + 1 - covered * self._spec.block_size
        width = -(-int(num_tokens.max()) // self._spec.block_size)
        # What a short row has behind its end is clipped to some column; nobody reads it.
        columns = np.minimum(covered[:, None] + np.arange(width), common.block_tables.shape[1] - 1)
        tables = common.block_tables[members[:, None], columns]
        rows = common.query_start_loc[members]
        return [PagedDecodes(self._tensor(tables), self._tensor(rows), self._tensor(num_tokens))]

    def forward(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        metadata: CpuAttentionMetadata,
        cos_sin: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """See `AttentionBackend.forward`."""
        self._ops.rotary_and_cache(query, key, value, cos_sin, self.kv_caches[layer], metadata.slots)
        return super().forward(layer, query, key, value, metadata)

    def _write(
        self, cache: torch.Tensor, key: torch.Tensor, value: torch.Tensor, metadata: TorchAttentionMetadata
    ) -> None:
        """Done already, together with the rotation."""

    def _attend_decodes(
        self,
        cache: torch.Tensor,
        query: torch.Tensor,
        metadata: CpuAttentionMetadata,
        output: torch.Tensor,
        log_sum_exp: torch.Tensor,
    ) -> None:
        for decodes in metadata.decodes:
            self._ops.decode_attention(
                query,
                cache,
                decodes.block_tables,
                decodes.rows,
                decodes.num_tokens,
                output,
                log_sum_exp,
                self._scale,
            )
