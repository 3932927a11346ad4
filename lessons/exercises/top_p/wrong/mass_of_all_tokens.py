"""Top-p is a part of the mass of all tokens, even if top-k has removed some."""

import torch

HINT = "Top-k comes first. What is 90 percent of the mass that is left?"


def _count_kept(
    head: torch.Tensor, total: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor
) -> torch.Tensor:
    head_size = head.shape[-1]
    in_top_k = torch.arange(head_size, device=head.device) < top_k
    head = head * in_top_k
    mass_before = head.cumsum(dim=-1) - head
    return (in_top_k & (mass_before < top_p * total)).sum(dim=-1, keepdim=True)
