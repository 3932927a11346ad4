"""The other part's share is the weight of this part."""

import torch

from minivllm.runtime.attention import partial as engine

HINT = (
    "torch.lerp(a, b, w) is a if w is 0. If one part's log-sum-exp is far larger, which part has"
    " nearly all the weight?"
)


def merge(
    output: torch.Tensor,
    log_sum_exp: torch.Tensor,
    rows: engine.Rows,
    other: torch.Tensor,
    other_lse: torch.Tensor,
) -> None:
    mine = log_sum_exp[rows]
    share = torch.sigmoid(mine - other_lse).unsqueeze(-1)  # of the other part
    output[rows] = torch.lerp(output[rows].float(), other.float(), share).to(output.dtype)
    log_sum_exp[rows] = torch.logaddexp(mine, other_lse)
