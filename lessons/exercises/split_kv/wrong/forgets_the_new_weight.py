"""A merge changes the output, but not the log-sum-exp."""

import torch

from minivllm.runtime.attention import partial as engine

HINT = "Then a third part is weighed against the first part only. What is the log-sum-exp of both?"


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
