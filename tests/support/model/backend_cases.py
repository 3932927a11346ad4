"""Attention cases for `torch` and `cpu`, which keep a block's keys and values together."""

import torch

from minivllm.runtime.attention.cpu_backend import CpuAttentionBackend
from minivllm.runtime.attention.torch_backend import TorchAttentionBackend
from minivllm.runtime.kv_cache import KVCacheSpec
from support.model.attention_cases import StepCase
from support.model.needs import cpu_ops


class BackendCase(StepCase):
    """A step and the torch backend that runs it."""

    def empty_backend(self, spec: KVCacheSpec) -> TorchAttentionBackend:
        return TorchAttentionBackend(spec, self.num_blocks, torch.device("cpu"))

    def backend(
        self, dtype: torch.dtype = torch.float32, kv_cache_dtype: str = "auto"
    ) -> TorchAttentionBackend:
        """A backend with a copy of this case's caches."""
        spec = KVCacheSpec(
            1, self.num_kv_heads, self.head_size, self.block_size, dtype, kv_cache_dtype,
            sliding_windows=(self.window,),
        )  # fmt: skip
        backend = self.empty_backend(spec)
        rows = as_backend_layout(self.key_cache, self.value_cache)
        rows = backend._to_stored(rows.flatten(0, 1))
        backend.kv_caches[0].copy_(rows.view_as(backend.kv_caches[0]))
        return backend

    def run(
        self, backend: TorchAttentionBackend, dtype: torch.dtype = torch.float32
    ) -> torch.Tensor:
        metadata = backend.build(self.metadata())
        inputs = (self.query, self.key, self.value, *self.cos_sin(len(self.query), dtype))
        *qkv, cos, sin = (x.to(backend.kv_caches[0].device, dtype) for x in inputs)
        return backend.forward(0, *qkv, (cos, sin), metadata).cpu()


class CpuCase(BackendCase):
    """A step and the CPU backend that runs it."""

    def empty_backend(self, spec: KVCacheSpec) -> CpuAttentionBackend:
        cpu_ops()  # skips the test where they cannot be built
        num_heads = self.num_kv_heads * self.group
        return CpuAttentionBackend(spec, self.num_blocks, torch.device("cpu"), num_heads)


def as_backend_layout(key_cache: torch.Tensor, value_cache: torch.Tensor) -> torch.Tensor:
    """[num_blocks, block_size, heads, head_size] twice -> [..., 2 * heads, head_size]."""
    return torch.cat((key_cache, value_cache), dim=2)
