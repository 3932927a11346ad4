"""The gathered numbers can be viewed as head after head."""

import torch

from minivllm.runtime.attention import torch_backend as engine

HINT = (
    "In memory, the heads of a token are neighbours, so a view must have tokens before heads."
    " Transpose afterwards."
)


class TorchAttentionBackend(engine.TorchAttentionBackend):
    def _read(
        self,
        cache: torch.Tensor,
        block_ids: torch.Tensor,
        num_seqs: int,
        padding: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = super()._read(cache, block_ids, num_seqs, padding)
        shape = keys.shape
        both = (
            torch.cat((keys, values), dim=1)
            .transpose(1, 2)
            .contiguous()
            .view(num_seqs, 2 * shape[1], shape[2], shape[3])
        )
        return both[:, : shape[1]], both[:, shape[1] :]
