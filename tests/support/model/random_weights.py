"""Matrices in a stored format with random weights."""

import torch

from minivllm.runtime.quantization.formats import FORMATS
from minivllm.runtime.quantization.stored_weight import StoredWeight

SCALES_AT = {"q8_0": (0, 2), "q4_0": (0, 2), "q4_1": (0, 4), "q4_k": (0, 4), "q6_k": (208, 210)}
"""The bytes of a block that are scales and minimums in float16."""


def random_weight(name: str, num_rows: int, in_features: int) -> StoredWeight:
    """Return a matrix with random weights, or with random quants and scales."""
    format_ = FORMATS[name]
    if format_.dtype is not None:
        return StoredWeight.of_tensor(torch.randn(num_rows, in_features).to(format_.dtype))
    if name == "int8":
        return StoredWeight.quantize_int8(
            [torch.randn(num_rows, in_features)], (num_rows, in_features)
        )
    shape = (num_rows, in_features // format_.block_size, format_.block_bytes)
    blocks = torch.randint(0, 256, shape, dtype=torch.uint8)
    first, end = SCALES_AT[name]
    scales = torch.randn(*shape[:2], (end - first) // 2) * 0.01
    blocks[..., first:end] = scales.half().view(torch.uint8)
    return StoredWeight(format_, blocks.flatten(1), in_features)
