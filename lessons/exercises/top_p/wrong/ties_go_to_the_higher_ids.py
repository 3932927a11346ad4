"""Of tokens that tie the last ones stay."""

import torch

from minivllm.runtime.sampling import logits_processors as engine

HINT = (
    "The order among equals must be the same everywhere, or a seed draws different tokens. It is"
    " the lower ids that stay."
)

_right = engine._kept


def _kept(logits: torch.Tensor, boundary: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    return _right(logits.flip(-1), boundary, count).flip(-1)
