"""Tokens stay as long as their sum is at most top_p of the mass."""

import torch

HINT = (
    "That set has less than top_p of the mass. Which token brings it over top_p, and does that"
    " token stay?"
)


def _count_kept(
    head: torch.Tensor, total: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor
) -> torch.Tensor:
    head_size = head.shape[-1]
    in_top_k = torch.arange(head_size, device=head.device) < top_k
    head = head * in_top_k
    total = torch.where(top_k <= head_size, head.sum(dim=-1, keepdim=True), total)
    mass = head.cumsum(dim=-1)
    return (in_top_k & (mass <= top_p * total)).sum(dim=-1, keepdim=True).clamp(min=1)
