"""Masked values do not matter, so padding can stay as it is."""

import torch

from minivllm.runtime.attention import torch_backend as engine

HINT = "The weight of padding is 0, and 0 * NaN is NaN. Another request may have left NaN there."


class TorchAttentionBackend(engine.TorchAttentionBackend):
    def _read(
        self,
        cache: torch.Tensor,
        block_ids: torch.Tensor,
        num_seqs: int,
        padding: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return super()._read(cache, block_ids, num_seqs)
