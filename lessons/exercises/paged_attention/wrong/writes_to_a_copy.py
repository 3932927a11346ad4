"""Flattening and indexing gives a view of the cache that can be written to."""

import torch

from minivllm.runtime.attention import torch_backend as engine

HINT = "Indexing with a tensor makes a new tensor. Has the cache itself changed afterwards?"


class TorchAttentionBackend(engine.TorchAttentionBackend):
    def _write(
        self,
        cache: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        metadata: engine.TorchAttentionMetadata,
    ) -> None:
        slots = cache.flatten(0, 1)[metadata.written_slots]
        slots.copy_(torch.cat((key, value), dim=1)[: len(slots)])
