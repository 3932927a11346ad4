"""exp(logit / temperature) can be computed directly."""

import torch

from minivllm.runtime.sampling import logits_processors as engine
from minivllm.sampling_params import SamplingParams

HINT = (
    "The largest float64 is about exp(709). What is exp(6 / 0.001)? Which number can you subtract"
    " from all logits of a row?"
)


def _relative_to_best(logits: torch.Tensor, params: list[SamplingParams]) -> torch.Tensor:
    weights = logits.double()
    weights /= engine._column([p.temperature for p in params], weights)
    weights.exp_()
    weights /= weights.amax(dim=-1, keepdim=True)
    return weights.masked_fill_(weights < engine._column([p.min_p for p in params], weights), 0.0)
