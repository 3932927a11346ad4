"""The decoder's building blocks: linear layer, RMS norm, rotary position embedding.

Each layer maps rows to rows, so a token's result never depends on its batch-mates.
`linear_backend` lays out the matrices, and nothing else keeps a loaded weight, which would double
the model's memory.
"""

import math

import torch
from torch import nn

from minivllm.runtime.model.custom_ops import TORCH_OPS, DecoderOps
from minivllm.runtime.model.linear_backend import Matrix
from minivllm.runtime.model.model_config import ModelConfig


class Linear(nn.Module):
    """y = x @ weight.T + bias. The decoder sets `matrix` when the weight is loaded."""

    def __init__(self, out_features: int, bias: bool = False) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.empty(out_features), requires_grad=False) if bias else None
        self.matrix: Matrix | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [num_tokens, in_features] -> [num_tokens, out_features]"""
        return self.matrix.multiply(x, self.bias)


class Embedding(nn.Module):
    """The table of token embeddings; with tied embeddings it is also the LM head.

    The decoder sets `matrix` when the weight is loaded.
    """

    def __init__(self) -> None:
        super().__init__()
        self.matrix: Matrix | None = None

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        """token_ids: [num_tokens] -> [num_tokens, hidden_size]"""
        return self.matrix.rows(token_ids)

    def as_linear(self, x: torch.Tensor) -> torch.Tensor:
        """x: [num_tokens, hidden_size] -> [num_tokens, vocab_size]"""
        return self.matrix.multiply(x)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight, over the last dimension."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size), requires_grad=False)
        self.eps = eps

    def forward(
        self, x: torch.Tensor, residual: torch.Tensor | None = None, ops: DecoderOps = TORCH_OPS
    ) -> torch.Tensor:
        """Normalize x: [..., size]; if `residual` is given, normalize x + residual.

        The sum is written to `residual`, which has the same shape as x.
        """
        if residual is None:
            return ops.rms_norm(x, self.weight, self.eps)
        return ops.add_rms_norm(x, residual, self.weight, self.eps)


class RotaryEmbedding:
    """The angles by which attention rotates each pair (x[i], x[i + head_size / 2]) of a head.

    The angle grows with the token's position. A pair has one element from each half, as Hugging
    Face's checkpoints require ("rotate half").
    """

    def __init__(self, config: ModelConfig, device: torch.device) -> None:
        self._inv_freq = _inverse_frequencies(config).to(device)  # [head_size / 2], float32

    def cos_sin(
        self, positions: torch.Tensor, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return cosines and sines for all layers of a step.

        positions: [num_tokens] -> two tensors [num_tokens, 1, head_size]

        Angles are float32 for every model dtype: bfloat16 cannot represent position 257.
        """
        # Leave a gap after each row. On contiguous memory, MKL uses all its threads even for a few
        # hundred cosines, and they then spin for milliseconds on cores that the decode step needs.
        angles = self._inv_freq.new_empty(len(positions), len(self._inv_freq) + 1)[:, :-1]
        torch.mul(positions.float().unsqueeze(-1), self._inv_freq, out=angles)
        cos, sin = angles.cos(), angles.sin()
        # Put the minus sign of the first half into the table: then a rotation needs no negation.
        cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)
        return cos.to(dtype).unsqueeze(1), sin.to(dtype).unsqueeze(1)


def _inverse_frequencies(config: ModelConfig) -> torch.Tensor:
    """Return the radians per position of each pair: [head_size / 2]."""
    exponents = torch.arange(0, config.head_size, 2, dtype=torch.float32) / config.head_size
    inv_freq = 1.0 / (config.rope_theta**exponents)
    scaling = config.rope_scaling
    if scaling is None:
        return inv_freq
    # Llama 3: a slow pair did not complete a full turn in training, so its frequency is divided by
    # the factor (interpolation). A fast pair keeps its frequency. In between, both are blended.
    turns_in_training = scaling.original_max_position_embeddings * inv_freq / (2 * math.pi)
    blend = (turns_in_training - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    blend = blend.clamp(0.0, 1.0)
    return (1 - blend) * inv_freq / scaling.factor + blend * inv_freq
