"""A higher temperature makes the logits larger."""

import torch

from minivllm.runtime.sampling import logits_processors as engine
from minivllm.sampling_params import SamplingParams

HINT = (
    "A high temperature makes the choice more even. What happens to the difference of two logits if"
    " you multiply them?"
)


def _relative_to_best(logits: torch.Tensor, params: list[SamplingParams]) -> torch.Tensor:
    weights = logits.double()
    weights -= weights.amax(dim=-1, keepdim=True)
    weights *= engine._column([p.temperature for p in params], weights)
    weights.exp_()
    return weights.masked_fill_(weights < engine._column([p.min_p for p in params], weights), 0.0)
