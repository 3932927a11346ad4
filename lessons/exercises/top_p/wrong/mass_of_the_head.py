"""The head is the whole vocabulary."""

import torch

HINT = (
    "The head shows a few hundred tokens of the vocabulary. The sum over which tokens is in total?"
)


def _count_kept(
    head: torch.Tensor, total: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor
) -> torch.Tensor:
    head_size = head.shape[-1]
    in_top_k = torch.arange(head_size, device=head.device) < top_k
    head = head * in_top_k
    total = head.sum(dim=-1, keepdim=True)
    mass_before = head.cumsum(dim=-1) - head
    return (in_top_k & (mass_before < top_p * total)).sum(dim=-1, keepdim=True)
