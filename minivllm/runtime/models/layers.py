"""The decoder's building blocks: linear layer, RMS norm, rotary position embedding. Inference only.

Knows nothing of attention, caches or batches: each layer maps rows to rows, so a token's result never
depends on which other tokens share the batch.

The decision that is easy to get wrong is how a CPU multiplies. A decode step has a handful of rows and is
bound by reading weights; `F.linear` gives such shapes to BLAS, which takes 2 to 6 times as long as reading
takes. oneDNN reads a weight that was laid out for it once, at load time, at the speed of memory. The laid-out
weight *replaces* the plain one, so this costs no memory.
"""

import math

import torch
from torch import nn

from minivllm.runtime.custom_ops import TORCH_OPS, DecoderOps
from minivllm.runtime.model_config import ModelConfig

PACKED_FOR_ROWS = 16
"""The batch that oneDNN lays weights out for; the layout serves any other number of rows too."""


def onednn_supports(tensor: torch.Tensor) -> bool:
    """Whether oneDNN multiplies by such a weight on this machine."""
    if tensor.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if tensor.dtype == torch.bfloat16:
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    if tensor.dtype == torch.float16:
        return torch.ops.mkldnn._is_mkldnn_fp16_supported()
    return tensor.dtype == torch.float32


def onednn_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """`F.linear` by oneDNN. `weight` may be plain, or laid out by `_reorder_linear_weight`, which is faster."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class Linear(nn.Module):
    """y = x @ weight.T + bias."""

    def __init__(self, in_features: int, out_features: int, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features), requires_grad=False)
        self.bias = nn.Parameter(torch.empty(out_features), requires_grad=False) if bias else None
        self._packed_weight: torch.Tensor | None = None

    def process_weights_after_loading(self) -> None:
        """Exchange the loaded weight for oneDNN's layout of it, where that is what will be multiplied by."""
        if onednn_supports(self.weight):
            self._packed_weight = torch.ops.mkldnn._reorder_linear_weight(self.weight, PACKED_FOR_ROWS)
            self.weight = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: [num_tokens, in_features] -> [num_tokens, out_features]"""
        if self._packed_weight is not None:
            return onednn_linear(x, self._packed_weight, self.bias)
        return nn.functional.linear(x, self.weight, self.bias)


class Embedding(nn.Module):
    """The table of token embeddings, which is also the LM head of a model with tied embeddings."""

    def __init__(self, vocab_size: int, hidden_size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, hidden_size), requires_grad=False)

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        """token_ids: [num_tokens] -> [num_tokens, hidden_size]"""
        return nn.functional.embedding(token_ids, self.weight)

    def as_linear(self, x: torch.Tensor) -> torch.Tensor:
        """x: [num_tokens, hidden_size] -> [num_tokens, vocab_size]

        Looking up needs the plain table, and a second, packed one would add a fifth to a small model's memory.
        """
        if onednn_supports(self.weight):
            return onednn_linear(x, self.weight, None)
        return nn.functional.linear(x, self.weight)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight, over the last dimension."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(size), requires_grad=False)
        self.eps = eps

    def forward(
        self, x: torch.Tensor, residual: torch.Tensor | None = None, ops: DecoderOps = TORCH_OPS
    ) -> torch.Tensor:
        """x: [..., size]; if there is a residual, x is added to it, in place, and the sum is normed."""
        if residual is None:
            return ops.rms_norm(x, self.weight, self.eps)
        return ops.add_rms_norm(x, residual, self.weight, self.eps)


class RotaryEmbedding:
    """Turns each pair (x[i], x[i + head_size / 2]) of a head by an angle that grows with the token's position.

    The pairs are halves, not neighbours: Hugging Face's checkpoints are stored for that ("rotate half").
    """

    def __init__(self, config: ModelConfig, device: torch.device) -> None:
        self._inv_freq = _inverse_frequencies(config).to(device)  # [head_size / 2], float32

    def cos_sin(self, positions: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """positions: [num_tokens] -> two of [num_tokens, 1, head_size], for all layers of a step.

        Angles are float32 whatever the model's dtype: bfloat16 cannot tell position 257 from 258.
        """
        angles = positions.float().unsqueeze(-1) * self._inv_freq
        cos, sin = angles.cos(), angles.sin()
        # The first half is turned by -sin: here the sign is in the table, so that `rotate` needs no negation.
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
    # Llama 3: a pair that turns slowly has not seen its full circle in training, so its angle is interpolated
    # (divided by the factor); a fast one is kept; in between the two are blended.
    turns_in_training = scaling.original_max_position_embeddings * inv_freq / (2 * math.pi)
    blend = (turns_in_training - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    blend = blend.clamp(0.0, 1.0)
    return (1 - blend) * inv_freq / scaling.factor + blend * inv_freq
