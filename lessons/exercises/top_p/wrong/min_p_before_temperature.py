"""Min-p is applied to the model's own distribution, before temperature."""

import torch

from minivllm.runtime.sampling import logits_processors as engine
from minivllm.sampling_params import SamplingParams

HINT = (
    "If min-p came first, its cut would not depend on temperature. Which of the two comes first in"
    " the README?"
)


def _relative_to_best(logits: torch.Tensor, params: list[SamplingParams]) -> torch.Tensor:
    weights = logits.double()
    weights -= weights.amax(dim=-1, keepdim=True)
    cut = weights.exp() < engine._column([p.min_p for p in params], weights)
    weights /= engine._column([p.temperature for p in params], weights)
    return weights.exp_().masked_fill_(cut, 0.0)
