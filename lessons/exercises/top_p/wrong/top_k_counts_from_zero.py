"""Tokens 0 to top_k stay."""

import torch

HINT = "How many tokens are these? top_k=1 keeps only the best one."


def _count_kept(
    head: torch.Tensor, total: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor
) -> torch.Tensor:
    head_size = head.shape[-1]
    in_top_k = torch.arange(head_size, device=head.device) <= top_k
    head = head * in_top_k
    total = torch.where(top_k <= head_size, head.sum(dim=-1, keepdim=True), total)
    mass_before = head.cumsum(dim=-1) - head
    return (in_top_k & (mass_before < top_p * total)).sum(dim=-1, keepdim=True)
