"""Min-p looks at what the model says, before temperature."""

import torch

from minivllm.runtime.sampling import logits_processors as engine
from minivllm.sampling_params import SamplingParams

HINT = (
    "A high temperature would bring up tokens only to have them cut. Which of the two comes first"
    " in the README?"
)


def _relative_to_best(logits: torch.Tensor, params: list[SamplingParams]) -> torch.Tensor:
    weights = logits.double()
    weights -= weights.amax(dim=-1, keepdim=True)
    cut = weights.exp() < engine._column([p.min_p for p in params], weights)
    weights /= engine._column([p.temperature for p in params], weights)
    return weights.exp_().masked_fill_(cut, 0.0)
