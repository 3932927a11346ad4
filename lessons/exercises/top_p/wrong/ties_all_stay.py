"""All tokens with the boundary's logit stay."""

import torch

HINT = "With top_k=2, three tokens tie for the best place. How many may stay, and which?"


def _kept(logits: torch.Tensor, boundary: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    return logits >= boundary
