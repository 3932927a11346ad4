"""A float32 copy of a GGUF model, for programs that cannot run the file: transformers and vLLM.

minivllm itself runs the file as it is stored. The copy has the same numbers, at several times the
size. `transformers` could unpack the file, too, but it needs the package `accelerate` for that.
"""

import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

from minivllm.runtime.checkpoint.checkpoint import INDEX
from minivllm.runtime.checkpoint.weights import stream_weights
from minivllm.runtime.quantization.stored_weight import CheckpointWeight, StoredWeight


def write_float32_copy(source: Path, target: Path) -> None:
    """Write the model of the directory `source` into the existing, empty directory `target`."""
    copy_other_files(source, target)
    weights = {name: as_float32(weight) for name, weight in stream_weights(source)}
    # transformers refuses files without this entry.
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})


def as_float32(weight: CheckpointWeight) -> torch.Tensor:
    """Return the weight's numbers in its shape, as float32."""
    return weight.dequantize() if isinstance(weight, StoredWeight) else weight.float()


def copy_other_files(source: Path, target: Path) -> None:
    """Copy all files except weights, such as the config and the tokenizer."""
    for path in source.iterdir():
        if path.is_file() and path.suffix not in (".gguf", ".safetensors") and path.name != INDEX:
            shutil.copy(path, target)
