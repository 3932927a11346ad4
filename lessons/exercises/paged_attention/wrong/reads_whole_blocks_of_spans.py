"""A span is made of whole blocks."""

import torch

from minivllm.runtime import torch_attention as engine

HINT = "What came before a chunk may end within a block. How many of the gathered tokens are the span's?"


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
        for span in metadata.spans:
            span.num_tokens = len(span.block_ids) * self._spec.block_size
        return super().forward(layer, query, key, value, metadata)
