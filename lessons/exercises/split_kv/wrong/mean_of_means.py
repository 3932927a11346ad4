"""The result of the whole is the mean of its parts."""

import torch

from minivllm.runtime.attention.partial import Rows

HINT = (
    "One part may be ten times as long as the other. Each counts as much as the sum of its weights."
)


def merge(
    output: torch.Tensor,
    log_sum_exp: torch.Tensor,
    rows: Rows,
    other: torch.Tensor,
    other_lse: torch.Tensor,
) -> None:
    mine = log_sum_exp[rows]
    output[rows] = (output[rows] + other) / 2
    log_sum_exp[rows] = torch.logaddexp(mine, other_lse)
