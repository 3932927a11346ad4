"""This step's tokens are written after attention."""

import torch

from minivllm.runtime.attention import torch_backend as engine

HINT = "A decode also attends to its own token, and reads it from the cache."


class TorchAttentionBackend(engine.TorchAttentionBackend):
    def forward(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cos_sin: tuple[torch.Tensor, torch.Tensor],
        metadata: engine.TorchAttentionMetadata,
    ) -> torch.Tensor:
        written = self.kv_caches[layer].clone()
        self._write(written, key, value, metadata)
        metadata.written_rows = metadata.written_slots[:0]
        metadata.written_slots = metadata.written_slots[:0]
        output = super().forward(layer, query, key, value, cos_sin, metadata)
        self.kv_caches[layer].copy_(written)
        return output
