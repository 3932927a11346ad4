"""Min-p looks at what the model says, before temperature."""

import torch

from minivllm.runtime.sampling import logits_processors as engine
from minivllm.sampling_params import SamplingParams

HINT = "A high temperature would bring up tokens only to have them cut. Which of the two comes first in the README?"


def to_weights(logits: torch.Tensor, params: list[SamplingParams]) -> torch.Tensor:
    vocab = logits.shape[-1]
    weights = logits.double()
    weights -= weights.amax(dim=-1, keepdim=True)
    cut = weights.exp() < engine._column([p.min_p for p in params], weights)
    weights /= engine._column([p.temperature for p in params], weights)
    weights.exp_()
    weights.masked_fill_(cut, 0.0)
    weights.mul_(2.0 ** (engine._EXACT_BITS - vocab.bit_length())).round_()
    if any(0 < p.top_k < vocab or p.top_p < 1.0 for p in params):
        engine._apply_top_k_top_p(logits, weights, params)
    return weights
