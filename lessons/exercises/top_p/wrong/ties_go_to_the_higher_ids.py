"""Of tokens that tie the last ones stay."""

import torch

from minivllm.runtime.sampling import logits_processors as engine
from minivllm.sampling_params import SamplingParams

HINT = "The order among equals must be the same everywhere, or a seed draws different tokens. It is the lower ids that stay."

_original = engine._apply_top_k_top_p


def _apply_top_k_top_p(logits: torch.Tensor, weights: torch.Tensor, params: list[SamplingParams]) -> None:
    flipped = weights.flip(-1)
    _original(logits.flip(-1), flipped, params)
    weights.copy_(flipped.flip(-1))
