"""The other part's share has the dtype of the outputs."""

import torch

from minivllm.runtime.attention import partial as engine

HINT = (
    "A share near 0.5 in bfloat16 can be off by a thousandth. With outputs of 100 and -100, that is"
    " a large error. Round once, at the end."
)


def merge(
    output: torch.Tensor,
    log_sum_exp: torch.Tensor,
    rows: engine.Rows,
    other: torch.Tensor,
    other_lse: torch.Tensor,
) -> None:
    mine = log_sum_exp[rows]
    share = torch.sigmoid(other_lse - mine).unsqueeze(-1)  # of the other part
    output[rows] = torch.lerp(output[rows], other, share.to(output.dtype))
    log_sum_exp[rows] = torch.logaddexp(mine, other_lse)
