"""The decoder's building blocks: linear layer, RMS norm, rotary position embedding. Inference only.

Knows nothing of attention, caches or batches: each layer maps rows to rows, so a token's result
never depends on which other tokens share the batch.

How a matrix is laid out and multiplied is `linear_backend`'s: a layer hands over its weight when it
is loaded. Easy to get wrong: keeping it, too, which would double the memory of a model.
"""

import math

import torch
from torch import nn

from minivllm.runtime.model.custom_ops import TORCH_OPS, DecoderOps
from minivllm.runtime.model.linear_backend import MakeMatrix, Matrix
from minivllm.runtime.model.model_config import ModelConfig


class Linear(nn.Module):
    """y = x @ weight.T + bias."""

    def __init__(self, in_features: int, out_features: int, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features), requires_grad=False)
        self.bias = nn.Parameter(torch.empty(out_features), requires_grad=False) if bias else None
        self.matrix: Matrix | None = None

    def process_weights_after_loading(self, make_matrix: MakeMatrix) -> None:
        """Exchange the loaded weight for the matrix that will be multiplied by."""
        self.matrix, self.weight = make_matrix(self.weight.data, False), None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [num_tokens, in_features] -> [num_tokens, out_features]"""
        return self.matrix.multiply(x, self.bias)


class Embedding(nn.Module):
    """The table of token embeddings, which is also the LM head of a model with tied embeddings."""

    def __init__(self, vocab_size: int, hidden_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, hidden_size), requires_grad=False)
        self.matrix: Matrix | None = None

    def process_weights_after_loading(self, make_matrix: MakeMatrix) -> None:
        """As `Linear.process_weights_after_loading`."""
        self.matrix, self.weight = make_matrix(self.weight.data, True), None

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
        """x: [..., size]; if there is a residual, x is added to it, in place, and the sum is
        normed.
        """
        if residual is None:
            return ops.rms_norm(x, self.weight, self.eps)
        return ops.add_rms_norm(x, residual, self.weight, self.eps)


class RotaryEmbedding:
    """Turns each pair (x[i], x[i + head_size / 2]) of a head by an angle that grows with the
    token's position.

    The pairs are halves, not neighbours: Hugging Face's checkpoints are stored for that ("rotate
    half").
    """

    def __init__(self, config: ModelConfig, device: torch.device) -> None:
        self._inv_freq = _inverse_frequencies(config).to(device)  # [head_size / 2], float32

    def cos_sin(
        self, positions: torch.Tensor, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """positions: [num_tokens] -> two of [num_tokens, 1, head_size], for all layers of a step.

        Angles are float32 whatever the model's dtype: bfloat16 cannot tell position 257 from 258.
        """
        # A gap after each row: of what is in one piece MKL takes even a few hundred cosines on all
        # threads, which spin for milliseconds afterwards, on the cores that the kernels of a decode
        # step need.
        angles = self._inv_freq.new_empty(len(positions), len(self._inv_freq) + 1)[:, :-1]
        torch.mul(positions.float().unsqueeze(-1), self._inv_freq, out=angles)
        cos, sin = angles.cos(), angles.sin()
        # The first half is turned by -sin: here the sign is in the table, so that `rotate` needs no
        # negation.
        cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)
        return cos.to(dtype).unsqueeze(1), sin.to(dtype).unsqueeze(1)

    @staticmethod
    def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """x: [num_tokens, num_heads, head_size] -> a new tensor of the same shape."""
        swapped_halves = x.roll(x.shape[-1] // 2, dims=-1)
        return (x * cos).addcmul_(swapped_halves, sin)


def _inverse_frequencies(config: ModelConfig) -> torch.Tensor:
    """Radians per position of each pair: [head_size / 2]."""
    exponents = torch.arange(0, config.head_size, 2, dtype=torch.float32) / config.head_size
    inv_freq = 1.0 / (config.rope_theta**exponents)
    scaling = config.rope_scaling
    if scaling is None:
        return inv_freq
    # Llama 3: a pair that turns slowly has not seen its full circle in training, so its angle is
    # interpolated (divided by the factor); a fast one is kept; in between the two are blended.
    turns_in_training = scaling.original_max_position_embeddings * inv_freq / (2 * math.pi)
    blend = (turns_in_training - scaling.low_freq_factor) / (
        scaling.high_freq_factor - scaling.low_freq_factor
    )
    blend = blend.clamp(0.0, 1.0)
    return (1 - blend) * inv_freq / scaling.factor + blend * inv_freq
