"""The weight of both parts is the sum of both log-sum-exps."""

import torch

from minivllm.runtime.partial_attention import Rows

HINT = "The weights are added, not their logarithms: log(exp(a) + exp(b))."


def merge(
    output: torch.Tensor, log_sum_exp: torch.Tensor, rows: Rows, other: torch.Tensor, other_lse: torch.Tensor
) -> None:
    mine = log_sum_exp[rows]
    weight = torch.sigmoid(other_lse - mine).unsqueeze(-1).to(output.dtype)
    output[rows] = torch.lerp(output[rows], other, weight)
    log_sum_exp[rows] = mine + other_lse
