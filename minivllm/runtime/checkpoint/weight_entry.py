"""`WeightEntry`: one weight of a file, in either format."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from minivllm.runtime.quantization.stored_weight import CheckpointWeight


@dataclass(frozen=True, slots=True)
class WeightEntry:
    """The place of one weight in a file, and how to read its bytes."""

    name: str
    """Hugging Face's name."""
    shape: tuple[int, ...]
    offset: int
    """Bytes from the start of the file."""
    num_bytes: int
    decode: Callable[[torch.Tensor, tuple[int, ...]], CheckpointWeight]
    """(bytes: [n] uint8, their shape) -> the weight, or some rows; may share the bytes' memory"""
    is_quantized: bool = False
    """Whether `decode` returns a `StoredWeight`."""
    row_order: torch.Tensor | None = None
    """Which row of the file is row 0, 1, ... of the weight; None for the order of the file."""
