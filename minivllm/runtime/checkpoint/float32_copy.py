"""A float32 copy of a GGUF model, for programs that cannot run the file: transformers and vLLM.

minivllm itself runs the file as it is stored. The copy has the same numbers, at several times the
size. `transformers` could unpack the file, too, but it needs the package `accelerate` for that,
holds the model in memory twice, and cannot save the result.
"""

import shutil
from math import prod
from pathlib import Path

import numpy as np

from minivllm.runtime.checkpoint.checkpoint import INDEX, weight_files
from minivllm.runtime.checkpoint.safetensors_file import write_float32
from minivllm.runtime.checkpoint.weights import stream_weights, weight_entries
from minivllm.runtime.quantization.stored_weight import CheckpointWeight, StoredWeight


def float32_bytes(directory: Path) -> int:
    """Approximate size of a float32 copy, in bytes."""
    return sum(
        4 * prod(entry.shape) for file in weight_files(directory) for entry in weight_entries(file)
    )


def write_float32_copy(source: Path, target: Path) -> None:
    """Write the model of the directory `source` into the existing, empty directory `target`."""
    copy_other_files(source, target)
    shapes = {
        entry.name: entry.shape for file in weight_files(source) for entry in weight_entries(file)
    }
    arrays = ((name, as_float32(weight)) for name, weight in stream_weights(source))
    write_float32(target / "model.safetensors", shapes, arrays)


def as_float32(weight: CheckpointWeight) -> np.ndarray:
    """Return the weight's numbers in its shape, as float32."""
    plain = weight.dequantize() if isinstance(weight, StoredWeight) else weight.float()
    return plain.numpy()


def copy_other_files(source: Path, target: Path) -> None:
    """Copy all files except weights, such as the config and the tokenizer."""
    for path in source.iterdir():
        if path.is_file() and path.suffix not in (".gguf", ".safetensors") and path.name != INDEX:
            shutil.copy(path, target)
