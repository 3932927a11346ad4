"""The largest score says how much a part weighs."""

import torch

HINT = "A part with a hundred equal scores weighs a hundred times as much as a part with one."


def attend_in_steps(query, key, value, scale, is_causal=False, mask=None):
    batch, _, num_queries, head_size = query.shape
    grouped = query.reshape(batch, key.shape[1], -1, num_queries, head_size).float()
    scores = grouped @ key.unsqueeze(2).mT.float() * scale
    if is_causal:
        future = torch.ones(num_queries, key.shape[2], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
    if mask is not None:
        scores = scores + mask.unsqueeze(1).float()
    log_sum_exp = scores.amax(dim=-1)
    output = scores.softmax(dim=-1) @ value.unsqueeze(2).float()
    return output.reshape(query.shape).to(query.dtype), log_sum_exp.reshape(query.shape[:3])
