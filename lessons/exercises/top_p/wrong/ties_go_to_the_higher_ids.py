"""If tokens tie, the ones with the higher ids stay."""

import torch

from minivllm.runtime.sampling import logits_processors as engine

HINT = (
    "Tied tokens must be ordered the same way everywhere, or a seed draws different tokens. The"
    " lower ids stay."
)

_right = engine._kept


def _kept(logits: torch.Tensor, boundary: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    return _right(logits.flip(-1), boundary, count).flip(-1)
