"""Heads repeated, exponentials written out, and two weights for two parts."""

import torch


def attend_in_steps(query, key, value, scale, is_causal=False, mask=None):
    group = query.shape[1] // key.shape[1]
    keys = key.float().repeat_interleave(group, dim=1)
    values = value.float().repeat_interleave(group, dim=1)
    scores = torch.einsum("bhqd,bhtd->bhqt", query.float(), keys) * scale
    if is_causal:
        rows = torch.arange(scores.shape[2], device=query.device)[:, None]
        columns = torch.arange(scores.shape[3], device=query.device)[None, :]
        scores = torch.where(columns <= rows, scores, float("-inf"))
    if mask is not None:
        scores = scores + mask.float()
    largest = scores.amax(dim=-1, keepdim=True)
    weights = torch.exp(scores - largest)
    total = weights.sum(dim=-1, keepdim=True)
    output = torch.einsum("bhqt,bhtd->bhqd", weights / total, values)
    return output.to(query.dtype), (largest + total.log()).squeeze(-1)


def merge(output, log_sum_exp, rows, other, other_lse):
    mine = log_sum_exp[rows]
    largest = torch.maximum(mine, other_lse)
    mine_weight, other_weight = torch.exp(mine - largest), torch.exp(other_lse - largest)
    total = mine_weight + other_weight
    both = output[rows].float() * mine_weight[..., None] + other.float() * other_weight[..., None]
    output[rows] = (both / total[..., None]).to(output.dtype)
    log_sum_exp[rows] = largest + total.log()
