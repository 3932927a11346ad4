"""The weight of the other part goes to this one."""

import torch

from minivllm.runtime.partial_attention import Rows

HINT = "torch.lerp(a, b, w) is a where w is 0. Which part has nearly all the weight if its log-sum-exp is far larger?"


def merge(
    output: torch.Tensor, log_sum_exp: torch.Tensor, rows: Rows, other: torch.Tensor, other_lse: torch.Tensor
) -> None:
    mine = log_sum_exp[rows]
    weight = torch.sigmoid(mine - other_lse).unsqueeze(-1).to(output.dtype)
    output[rows] = torch.lerp(output[rows], other, weight)
    log_sum_exp[rows] = torch.logaddexp(mine, other_lse)
