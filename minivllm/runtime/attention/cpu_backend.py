"""The attention backend `cpu`: as `torch`, but reads the cache in place, and rotation and writing
are one pass.

Once a step the work is cut into parts (`attention_work`), once a layer two kernels run: one writes
keys and values, the other attends. Chunks, decodes and shared prefixes are all the same to it. A
chunk's own keys and values are read from the cache, too: tokens that are not written in this step
(`NOT_WRITTEN`) are there already, or another sequence of the step writes them, and all is written
before any is read.

Easy to get wrong: rotating in place. Queries and keys may be views of the linear layer's output,
which nobody else reads; who wants to see queries (the attention mass, the x-ray) gets them rotated
by the decoder and not here.
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
    """[num_tokens], `NOT_WRITTEN` included"""
    work: tuple[torch.Tensor, ...]
    """The fields of `AttentionWork`, then the kernel's workspace: two of [num_tokens, num_heads]"""


class CpuAttentionBackend(TorchAttentionBackend):
    """Owns the KV cache of all layers and attends over it with the CPU's own kernels."""

    def __init__(
        self, spec: KVCacheSpec, num_blocks: int, device: torch.device, num_heads: int
    ) -> None:
        super().__init__(spec, num_blocks, device)
        self._num_heads = num_heads
        self._ops = load_cpu_ops()

    @staticmethod
    def check_support(spec: KVCacheSpec, device: torch.device) -> None:
        """Raises `ConfigError` if the backend cannot run on `device`, or not with such heads."""
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
        """See `AttentionBackend.build`."""
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
        metadata: CpuAttentionMetadata,
        cos_sin: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """See `AttentionBackend.forward`."""
        cache = self.kv_caches[layer]
        self._ops.rotary_and_cache(query, key, value, cos_sin, cache, metadata.slots)
        output = query.new_empty(query.shape)  # in one piece, which the query need not be
        self._ops.attend(query, cache, *metadata.work, output, self._scale)
        return output
