"""Weights of a real model, as they are stored, for lesson 13. Imports torch."""

import torch

from minivllm.errors import LessonError
from minivllm.runtime.checkpoint.weights import stream_weights
from minivllm.runtime.quantization.formats import FORMATS
from minivllm.runtime.quantization.stored_weight import StoredWeight
from minivllm.runtime.store.model_store import resolve_model

Q4_1 = FORMATS["q4_1"]


def first_matrix(model: str) -> torch.Tensor:
    """A matrix of the model's first layer, [out, in] float32, in numbers of bfloat16.

    Raises `LessonError` if the checkpoint has other numbers.
    """
    for name, weight in stream_weights(resolve_model(model)):
        if isinstance(weight, StoredWeight):
            weight = weight.dequantize()
        if "layers.0." in name and weight.dim() == 2:
            break
    if not (weight == weight.bfloat16()).all():
        raise LessonError(
            f"This lesson needs weights in bfloat16, and {model} has others: leave --model out."
        )
    return weight.float()
