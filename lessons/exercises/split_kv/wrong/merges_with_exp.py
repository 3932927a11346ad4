"""The formula contains exp, so compute exp of each log-sum-exp."""

import torch

from minivllm.runtime.attention.partial import Rows

HINT = (
    "exp(150) overflows float32, and exp(-150) is 0. Only the difference of the two log-sum-exps is"
    " small."
)


def merge(
    output: torch.Tensor,
    log_sum_exp: torch.Tensor,
    rows: Rows,
    other: torch.Tensor,
    other_lse: torch.Tensor,
) -> None:
    mine = log_sum_exp[rows]
    a, b = mine.exp().unsqueeze(-1), other_lse.exp().unsqueeze(-1)
    output[rows] = (a * output[rows] + b * other) / (a + b)
    log_sum_exp[rows] = torch.logaddexp(mine, other_lse)
