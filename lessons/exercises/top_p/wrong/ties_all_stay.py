"""All tokens with the boundary's logit stay."""

import torch

from minivllm.runtime.sampling import logits_processors as engine
from minivllm.sampling_params import SamplingParams

HINT = "top_k=2 and three tokens tie for the best place. How many may stay, and which?"

_original = engine._apply_top_k_top_p


def _apply_top_k_top_p(logits: torch.Tensor, weights: torch.Tensor, params: list[SamplingParams]) -> None:
    before = weights.clone()
    _original(logits, weights, params)
    least = logits.masked_fill(weights == 0, torch.inf).amin(dim=-1, keepdim=True)
    weights.copy_(torch.where(logits >= least, before, weights))
