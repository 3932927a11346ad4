"""exp(logit / temperature) is all there is to it."""

import torch

from minivllm.runtime.sampling import logits_processors as engine
from minivllm.sampling_params import SamplingParams

HINT = "The largest float64 is about exp(709). What is exp(6 / 0.001)? Which number may be subtracted from all logits of a row?"


def to_weights(logits: torch.Tensor, params: list[SamplingParams]) -> torch.Tensor:
    vocab = logits.shape[-1]
    weights = logits.double()
    weights /= engine._column([p.temperature for p in params], weights)
    weights.exp_()
    weights /= weights.amax(dim=-1, keepdim=True)
    weights.masked_fill_(weights < engine._column([p.min_p for p in params], weights), 0.0)
    weights.mul_(2.0 ** (engine._EXACT_BITS - vocab.bit_length())).round_()
    if any(0 < p.top_k < vocab or p.top_p < 1.0 for p in params):
        engine._apply_top_k_top_p(logits, weights, params)
    return weights
