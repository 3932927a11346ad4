"""The decoder's small operations in torch: reference implementations of the fused kernels.

These functions have the kernels' signatures, round where the decoder (`minivllm/runtime/model`)
rounds, and work in any dtype, float64 included.

Source: transformers 5 `models/llama/modeling_llama.py`; vLLM
`vllm/model_executor/layers/{layernorm,activation}.py`.
"""

import torch
from torch.nn import functional

from minivllm.kernels.reference import reshape_and_cache

MAX_INT8 = 127
MIN_SCALE = 1e-6
"""Smallest scale of a head, so that a head of zeros can be divided by its scale."""


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x / sqrt(mean(x^2) + eps) * weight, over the last dimension, in the weight's dtype.

    x: [num_rows, size]; weight: [size]; returns [num_rows, size]
    """
    if weight.dtype != x.dtype:
        return rms_norm(x.to(weight.dtype), weight, eps).to(x.dtype)
    return functional.rms_norm(x, weight.shape, weight, eps)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """Add x to the residual stream, in place, and return the norm of the rounded sum.

    x, residual: [num_rows, size]; weight: [size]; returns [num_rows, size]
    """
    residual += x
    return rms_norm(residual, weight, eps)


def silu_and_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up. gate_up: [num_rows, 2 * size], the gates first; returns [num_rows, size]"""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.silu(gate).mul_(up)  # in place, which takes a third less memory


def gelu_tanh_and_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """gelu(gate) * up, with tanh in place of the normal distribution; shapes as above."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.gelu(gate, approximate="tanh").mul_(up)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate each pair (x[i], x[i + head_size / 2]) of a head by its angle.

    x: [num_tokens, num_heads, head_size] -> a new tensor of the same shape
    cos, sin: [num_tokens, 1, head_size], from `RotaryEmbedding.cos_sin`: sin is negated in the
        first half
    """
    return (x * cos).addcmul_(x.roll(x.shape[-1] // 2, dims=-1), sin)


def rotary_and_cache(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> torch.Tensor:
    """Rotate queries and keys, write keys and values to the cache, and return the queries.

    query: [num_tokens, num_heads, head_size]; key, value: [num_tokens, num_kv_heads, head_size]
    cos, sin: as in `rotate`
    key_cache, value_cache: [num_blocks, block_size, num_kv_heads, head_size], changed in place
    slot_mapping: [num_tokens], -1 for a token that is not written

    Returns [num_tokens, num_heads, head_size]. The rotated keys go only to the cache.
    """
    reshape_and_cache(rotate(key, cos, sin), value, key_cache, value_cache, slot_mapping)
    return rotate(query, cos, sin)


def quantize_heads(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Round each head to int8 with a scale of its own: x: [..., head_size].

    Returns int8 [..., head_size] and the scales [...] float32. The scale maps the head's largest
    number to 127. A head with a NaN or infinite number gets a NaN or infinite scale, so that
    `dequantize_heads` gives NaN.

    Source: vLLM `int8_per_token_head`, with its smallest scale.
    """
    exact = x.float()
    scales = (exact.abs().amax(-1) * (1 / MAX_INT8)).clamp(min=MIN_SCALE)
    numbers = (exact * scales.reciprocal().unsqueeze(-1)).round().clamp(-MAX_INT8, MAX_INT8)
    return numbers.nan_to_num(0.0).to(torch.int8), scales


def dequantize_heads(numbers: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Undo `quantize_heads` up to rounding; returns float32 [..., head_size]."""
    return numbers.float() * scales.unsqueeze(-1)
