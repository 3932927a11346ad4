"""The attention backend `cpu`: C kernels that read the KV cache in place.

Once per step, `runtime/cpu/attention_work.py` cuts the work into parts. Once per layer, one kernel
rotates queries and keys and writes keys and values into the cache; a second kernel attends. Chunks,
decodes and shared prefixes all take this path.

A chunk reads its own keys and values from the cache too. That is safe because all tokens are
written before any token is read. A token marked `NOT_WRITTEN` is already in the cache, or another
sequence of the step writes it.

Rotation happens in place: queries and keys are views of the linear layer's output, which is not
needed afterwards.
"""

from dataclasses import dataclass

import numpy as np
import torch

from minivllm.errors import ConfigError
from minivllm.kernels.cpu.library import CpuKernelsError
from minivllm.kernels.cpu.ops import why_unsupported
from minivllm.runtime.attention.torch_backend import TorchAttentionBackend
from minivllm.runtime.cpu.attention_work import cut_into_parts
from minivllm.runtime.cpu.load import load_cpu_ops
from minivllm.runtime.input_batch import CommonAttentionMetadata
from minivllm.runtime.kv_cache import KVCacheSpec


@dataclass(slots=True)
class CpuAttentionMetadata:
    slots: torch.Tensor
    """[num_tokens]: the cache slot of each token, or `NOT_WRITTEN`"""
    work: tuple[torch.Tensor, ...]
    """The fields of `AttentionWork`, then two workspaces of [num_tokens, num_heads] float32"""


class CpuAttentionBackend(TorchAttentionBackend):
    """Owns the KV cache of all layers and attends over it with the C kernels."""

    def __init__(
        self, spec: KVCacheSpec, num_blocks: int, device: torch.device, num_heads: int
    ) -> None:
        super().__init__(spec, num_blocks, device)
        self._num_heads = num_heads
        self._ops = load_cpu_ops()

    @staticmethod
    def check_support(spec: KVCacheSpec, device: torch.device) -> None:
        """Raise `ConfigError` if the backend does not support `device` or the head size."""
        why = (
            f"the device is {device.type}."
            if device.type != "cpu"
            else why_unsupported(spec.dtype, spec.head_size)
        )
        if why is None:
            try:
                load_cpu_ops()
            except CpuKernelsError as error:
                why = str(error)
        if why is not None:
            raise ConfigError(
                f"attention_backend cpu cannot run here: {why} Use attention_backend='torch'."
            )

    def build(self, common: CommonAttentionMetadata) -> CpuAttentionMetadata:
        work = cut_into_parts(
            common, self._spec.block_size, self._num_heads // self._spec.num_kv_heads
        )
        tensors = (work.parts.view(np.int64), work.level_ends, work.rows, work.block_tables)
        workspace = torch.empty(2, len(common.slot_mapping), self._num_heads, dtype=torch.float32)
        return CpuAttentionMetadata(
            self._tensor(common.slot_mapping), (*map(self._tensor, tensors), *workspace)
        )

    def forward(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cos_sin: tuple[torch.Tensor, torch.Tensor],
        metadata: CpuAttentionMetadata,
    ) -> torch.Tensor:
        cache = self.kv_caches[layer]
        self._ops.rotary_and_cache(query, key, value, cos_sin, cache, metadata.slots)
        output = query.new_empty(query.shape)  # contiguous, even if the query is not
        self._ops.attend(query, cache, *metadata.work, output, self._spec.num_kv_heads, self._scale)
        return output
