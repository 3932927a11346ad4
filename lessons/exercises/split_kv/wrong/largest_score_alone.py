"""The largest score says how much a part weighs."""

import torch

HINT = "A part with a hundred equal scores weighs a hundred times as much as one with a single one."


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
    log_sum_exp = scores.amax(dim=-1)
    output = scores.softmax(dim=-1) @ value.unsqueeze(2).float()
    shape = (batch, num_heads, num_queries)
    return output.reshape(*shape, head_size).to(query.dtype), log_sum_exp.reshape(shape)
