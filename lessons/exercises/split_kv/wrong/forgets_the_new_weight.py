"""Merging changes the output; how much weight there is stays."""

import torch

from minivllm.runtime.partial_attention import Rows

HINT = "Then a third part is weighed against the first alone. What is the log-sum-exp of both?"


def merge(
    output: torch.Tensor, log_sum_exp: torch.Tensor, rows: Rows, other: torch.Tensor, other_lse: torch.Tensor
) -> None:
    mine = log_sum_exp[rows]
    weight = torch.sigmoid(other_lse - mine).unsqueeze(-1).to(output.dtype)
    output[rows] = torch.lerp(output[rows], other, weight)
