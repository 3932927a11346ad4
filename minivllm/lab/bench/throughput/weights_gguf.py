"""`write_gguf`: writes a checkpoint's weights as a GGUF file, for comparisons of formats.

The file has no tokenizer. Matrices have the requested format; norms and biases are float32, as
llama.cpp requires. For the `llama` architecture, the rows of query and key projections need another
order (`gguf_conversion` does the inverse); without it, a file loads but gives wrong tokens.
"""

from pathlib import Path

import gguf
import numpy as np

from minivllm.errors import BenchError
from minivllm.runtime.checkpoint.checkpoint import GGUF_FILE, read_model_config
from minivllm.runtime.checkpoint.float32_copy import as_float32, copy_other_files
from minivllm.runtime.checkpoint.weights import stream_weights
from minivllm.runtime.model.model_config import ModelConfig
from minivllm.runtime.model.weight_map import is_redundant
from minivllm.runtime.store.model_store import resolve_model

_TYPES = {
    "float32": "F32", "float16": "F16", "bfloat16": "BF16", "q8_0": "Q8_0", "q4_0": "Q4_0",
    "q4_1": "Q4_1",
}  # fmt: skip
"""Formats that the `gguf` library can write. It can only read q4_k and q6_k."""
INT8 = "int8"
"""Not a format of a file: the engine quantizes while it loads."""


def formats_of(asked: str) -> list[str]:
    """Split the option `--formats`. Raises `BenchError`."""
    formats, known = asked.split(","), (*_TYPES, INT8)
    if unknown := set(formats) - set(known):
        raise BenchError(f"--formats: use {', '.join(known)}; got {', '.join(unknown)}.")
    return formats


def own_gguf(model: str) -> Path:
    """Return the GGUF file that `model` runs from. Raises `BenchError` if there is none."""
    path = (resolve_model(model) / GGUF_FILE).resolve()
    if not path.is_file():
        why = f"--peer-gguf same needs a model from a GGUF file, and {model} is not one"
        raise BenchError(f"{why}: leave it out.")
    return path


def write_stored_copy(checkpoint: Path, target: Path, format_: str) -> None:
    """Write a model into the existing, empty directory `target`; for `INT8`, as float32."""
    copy_other_files(checkpoint, target)
    write_gguf(checkpoint, target / GGUF_FILE, "float32" if format_ == INT8 else format_)


def write_gguf(checkpoint: Path, path: Path, dtype: str) -> None:
    """Write the model in directory `checkpoint` to `path`. Raises `BenchError` if it cannot."""
    config = read_model_config(checkpoint)
    arch = config.architecture.removesuffix("ForCausalLM").lower()  # such as qwen3
    if config.rope_scaling is not None or arch not in ("llama", "qwen2", "qwen3"):
        raise BenchError(
            "This benchmark writes only Llama, Qwen2 and Qwen3 without scaled rotary embeddings for"
            " llama.cpp: compare with another model."
        )
    writer = gguf.GGUFWriter(path, arch)
    _add_shape(writer, config)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[arch.upper()], config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, tensor in stream_weights(checkpoint):
        if is_redundant(name, config):
            continue
        array, module = as_float32(tensor).numpy(), name.split(".")[-2]
        if arch == "llama" and module in heads:
            array = _llama_cpp_rotary_order(array, heads[module])
        type_ = gguf.GGMLQuantizationType[_TYPES[dtype] if array.ndim == 2 else "F32"]
        theirs = names.get_name(name, try_suffixes=(".weight", ".bias"))
        writer.add_tensor(theirs, gguf.quants.quantize(array, type_), raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_shape(writer: gguf.GGUFWriter, config: ModelConfig) -> None:
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("none")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_size)
    writer.add_value_length(config.head_size)
    writer.add_rope_dimension_count(config.head_size)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)


def _llama_cpp_rotary_order(array: np.ndarray, num_heads: int) -> np.ndarray:
    """Reorder [num_heads * head_size, ...]: the rows of each head from [2, half] to [half, 2]."""
    half = array.shape[0] // num_heads // 2
    return array.reshape(num_heads, 2, half, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
