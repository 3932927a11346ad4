"""The merged log-sum-exp is the sum of both log-sum-exps."""

import torch

from minivllm.runtime.attention import partial as engine

HINT = "Add the weights, not their logarithms: log(exp(a) + exp(b))."


def merge(
    output: torch.Tensor,
    log_sum_exp: torch.Tensor,
    rows: engine.Rows,
    other: torch.Tensor,
    other_lse: torch.Tensor,
) -> None:
    mine = log_sum_exp[rows]
    share = torch.sigmoid(other_lse - mine).unsqueeze(-1)  # of the other part
    output[rows] = torch.lerp(output[rows].float(), other.float(), share).to(output.dtype)
    log_sum_exp[rows] = mine + other_lse
