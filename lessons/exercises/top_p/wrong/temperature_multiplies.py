"""A higher temperature makes the scores larger."""

import torch

from minivllm.runtime.sampling import logits_processors as engine
from minivllm.sampling_params import SamplingParams

HINT = "A high temperature is to make the choice more even. What happens to the distance of two logits that are multiplied?"


def to_weights(logits: torch.Tensor, params: list[SamplingParams]) -> torch.Tensor:
    vocab = logits.shape[-1]
    weights = logits.double()
    weights -= weights.amax(dim=-1, keepdim=True)
    weights *= engine._column([p.temperature for p in params], weights)
    weights.exp_()
    weights.masked_fill_(weights < engine._column([p.min_p for p in params], weights), 0.0)
    weights.mul_(2.0 ** (engine._EXACT_BITS - vocab.bit_length())).round_()
    if any(0 < p.top_k < vocab or p.top_p < 1.0 for p in params):
        engine._apply_top_k_top_p(logits, weights, params)
    return weights
