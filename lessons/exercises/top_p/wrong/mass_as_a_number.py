"""The weights add up to 1."""

import torch

HINT = "The weights are whole numbers in the right ratios. top_p is a part of which sum?"


def _count_kept(
    head: torch.Tensor, total: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor
) -> torch.Tensor:
    head_size = head.shape[-1]
    in_top_k = torch.arange(head_size, device=head.device) < top_k
    head = head * in_top_k
    total = torch.where(top_k <= head_size, head.sum(dim=-1, keepdim=True), total)
    mass_before = head.cumsum(dim=-1) - head
    return (in_top_k & (mass_before < top_p)).sum(dim=-1, keepdim=True)
