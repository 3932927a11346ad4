"""Neighbouring query heads have different key heads."""

import torch

HINT = "With 4 query heads and 2 key heads, heads 0 and 1 share the first one. Which of your two new dimensions comes first?"


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
    grouped = query.reshape(batch, -1, num_kv_heads, num_queries, head_size).float()
    scores = grouped @ key.unsqueeze(1).mT.float() * scale
    if is_causal:
        scores = scores.masked_fill(torch.ones(num_queries, num_tokens, dtype=torch.bool).triu(1), float("-inf"))
    if mask is not None:
        scores = scores + mask.unsqueeze(1).float()
    log_sum_exp = scores.logsumexp(dim=-1)
    output = scores.softmax(dim=-1) @ value.unsqueeze(1).float()
    shape = (batch, num_heads, num_queries)
    return output.reshape(*shape, head_size).to(query.dtype), log_sum_exp.reshape(shape)
