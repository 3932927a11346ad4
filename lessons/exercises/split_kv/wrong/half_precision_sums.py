"""The log-sum-exp has the dtype of the queries."""

import torch

HINT = "bfloat16 has 8 bits: between 128 and 256 it knows whole numbers only. exp of a difference that is off by one is off by a factor of e."


def attend_in_steps(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    is_causal: bool = False,
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    batch, num_heads, num_queries, head_size = query.shape
    num_kv_heads, num_tokens = key.shape[1], key.shape[2]
    grouped = query.reshape(batch, num_kv_heads, -1, num_queries, head_size).float()
    scores = grouped @ key.unsqueeze(2).mT.float() * scale
    if is_causal:
        scores = scores.masked_fill(torch.ones(num_queries, num_tokens, dtype=torch.bool).triu(1), float("-inf"))
    if mask is not None:
        scores = scores + mask.unsqueeze(1).float()
    log_sum_exp = scores.logsumexp(dim=-1)
    output = scores.softmax(dim=-1) @ value.unsqueeze(2).float()
    shape = (batch, num_heads, num_queries)
    return output.reshape(*shape, head_size).to(query.dtype), log_sum_exp.reshape(shape).to(query.dtype)
