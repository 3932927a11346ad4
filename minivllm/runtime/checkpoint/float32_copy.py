"""A float32 copy of a GGUF model, for programs that cannot run the file: transformers and vLLM.

minivllm itself runs the file as it is stored. The copy has the same numbers, at several times the
size. `transformers` could unpack the file, too, but it needs the package `accelerate` for that.
"""

import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

from minivllm.runtime.checkpoint.checkpoint import INDEX, read_model_config
from minivllm.runtime.checkpoint.weights import stream_weights
from minivllm.runtime.model.model_config import ModelConfig
from minivllm.runtime.quantization.stored_weight import CheckpointWeight, StoredWeight


def write_float32_copy(source: Path, target: Path) -> None:
    """Write the model of the directory `source` into the existing, empty directory `target`."""
    copy_other_files(source, target)
    weights = {name: as_float32(weight) for name, weight in stream_weights(source)}
    config = read_model_config(source)
    if config.architecture == "GraniteMoeForCausalLM":
        _join_experts(weights, config)
    # transformers refuses files without this entry.
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})


def _join_experts(weights: dict[str, torch.Tensor], config: ModelConfig) -> None:
    """Undo `split_experts`."""
    for i in range(config.num_hidden_layers):
        ours, theirs = f"model.layers.{i}.mlp", f"model.layers.{i}.block_sparse_moe"
        gate, up, down = (
            torch.stack(
                [weights.pop(f"{ours}.experts.{e}.{part}") for e in range(config.num_experts)]
            )
            for part in ("gate_proj.weight", "up_proj.weight", "down_proj.weight")
        )
        weights[f"{theirs}.input_linear.weight"] = torch.cat((gate, up), dim=1)
        weights[f"{theirs}.output_linear.weight"] = down
        weights[f"{theirs}.router.layer.weight"] = weights.pop(f"{ours}.gate.weight")


def as_float32(weight: CheckpointWeight) -> torch.Tensor:
    """Return the weight's numbers in its shape, as float32."""
    return weight.dequantize() if isinstance(weight, StoredWeight) else weight.float()


def copy_other_files(source: Path, target: Path) -> None:
    """Copy all files except weights, such as the config and the tokenizer."""
    for path in source.iterdir():
        if path.is_file() and path.suffix not in (".gguf", ".safetensors") and path.name != INDEX:
            shutil.copy(path, target)
