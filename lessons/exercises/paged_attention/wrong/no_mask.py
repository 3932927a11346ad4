"""Zeroed keys have no weight, so the mask is not needed."""

import torch

from minivllm.runtime import torch_attention as engine

HINT = "A score of 0 is a score like any other: exp(0) is 1. Which operand takes a key out of the softmax?"


class TorchAttentionBackend(engine.TorchAttentionBackend):
    def forward(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        metadata: engine.TorchAttentionMetadata,
        cos_sin: None = None,
    ) -> torch.Tensor:
        for bucket in metadata.decodes:
            bucket.mask = torch.zeros_like(bucket.mask)
        return super().forward(layer, query, key, value, metadata)
