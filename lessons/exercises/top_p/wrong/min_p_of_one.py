"""A token needs a probability of at least min_p."""

import torch

from minivllm.runtime.sampling import logits_processors as engine
from minivllm.sampling_params import SamplingParams

HINT = (
    "min_p is relative to the best token, so that a flat distribution keeps many tokens. Which is 1"
    " here, the best weight or the sum?"
)


def _relative_to_best(logits: torch.Tensor, params: list[SamplingParams]) -> torch.Tensor:
    weights = logits.double()
    weights -= weights.amax(dim=-1, keepdim=True)
    weights /= engine._column([p.temperature for p in params], weights)
    weights.exp_()
    least = engine._column([p.min_p for p in params], weights) * weights.sum(dim=-1, keepdim=True)
    return weights.masked_fill_(weights < least, 0.0)
