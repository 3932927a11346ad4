"""The order of the blocks in memory is the order of the tokens."""

import torch

from minivllm.runtime.attention import torch_backend as engine

HINT = "Table [7, 2] means that block 7 holds the first tokens, not block 2."


class TorchAttentionBackend(engine.TorchAttentionBackend):
    def _read(
        self,
        cache: torch.Tensor,
        block_ids: torch.Tensor,
        num_seqs: int,
        padding: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return super()._read(cache, block_ids.sort().values, num_seqs, padding)
