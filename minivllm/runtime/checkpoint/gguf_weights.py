"""The weights of a GGUF file in the formats of the file, under Hugging Face's names.

A matrix keeps its blocks if `FORMATS` has its type. Matrices of other types, such as Q5_K, become
float32 while they are read, and so do quantized vectors.

llama.cpp stores the query and key projections of the `llama` architecture with reordered rows.
Without `_rotary_order`, all shapes would be right, and the generated text wrong.
"""

import re
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import numpy as np
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quant_shape_to_byte_shape

from minivllm.errors import ModelIntegrityError, UnsupportedModelError
from minivllm.runtime.checkpoint.gguf_file import GgufHeader, GgufTensor
from minivllm.runtime.checkpoint.weight_entry import WeightEntry
from minivllm.runtime.quantization.formats import FORMATS, WeightFormat
from minivllm.runtime.quantization.stored_weight import CheckpointWeight, StoredWeight

GGUF_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "token_embd": "model.embed_tokens",
        "output_norm": "model.norm",
        "output": "lm_head",
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "attn_q_norm": "self_attn.q_norm",
        "attn_k_norm": "self_attn.k_norm",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
)
"""llama.cpp's name of a module -> Hugging Face's name.

Modules of a layer have a prefix: `blk.3.` in llama.cpp, `model.layers.3.` in Hugging Face.
"""
_TENSOR_NAME = re.compile(r"(?:blk\.(?P<layer>\d+)\.)?(?P<module>\w+)\.(?P<kind>weight|bias)")
_HEAD_COUNTS = {"attn_q": "attention.head_count", "attn_k": "attention.head_count_kv"}
"""Modules whose rows llama.cpp reorders -> the setting with their number of heads."""
_PLAIN = {
    GGMLQuantizationType.F64: torch.float64,
    GGMLQuantizationType.F32: torch.float32,
    GGMLQuantizationType.F16: torch.float16,
    GGMLQuantizationType.BF16: torch.bfloat16,
}


def hf_name(header: GgufHeader, name: str) -> str:
    """Return Hugging Face's name of a tensor. Raises `UnsupportedModelError` if it is unknown."""
    match = _TENSOR_NAME.fullmatch(name)
    if match is None or match["module"] not in GGUF_NAMES:
        raise unknown_tensor(header, name)
    layer = "" if match["layer"] is None else f"model.layers.{match['layer']}."
    return f"{layer}{GGUF_NAMES[match['module']]}.{match['kind']}"


def unknown_tensor(header: GgufHeader, name: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"{header.path} has the tensor {name!r:.100}, which no supported model has."
    )


def check_types(header: GgufHeader) -> None:
    """Raise `UnsupportedModelError` if a tensor has a type that nothing here can read."""
    for type_ in {tensor.type for tensor in header.tensors.values()} - _PLAIN.keys():
        block = np.zeros((1, GGML_QUANT_SIZES[type_][1]), np.uint8)
        try:
            dequantize(block, type_)
        except NotImplementedError:
            raise UnsupportedModelError(
                f"{header.path} stores its weights as {type_.name}, which minivllm cannot unpack:"
                " use a Q4, Q5, Q6, Q8, F16 or BF16 version of the model."
            ) from None


def gguf_entries(header: GgufHeader) -> list[WeightEntry]:
    """Return the tensors in file order. Raises `UnsupportedModelError` if one cannot be read."""
    check_types(header)
    return [
        WeightEntry(
            hf_name(header, tensor.name),
            tensor.shape,
            tensor.offset,
            tensor.num_bytes,
            partial(_decode, tensor.type),
            _stored_format(tensor.type, tensor.shape) is not None,
            _row_order(header, tensor),
        )
        for tensor in header.tensors.values()
    ]


def _row_order(header: GgufHeader, tensor: GgufTensor) -> torch.Tensor | None:
    module = tensor.name.split(".")[-2]
    if header.metadata.get("general.architecture") != "llama" or module not in _HEAD_COUNTS:
        return None
    num_heads = header.metadata.get(f"llama.{_HEAD_COUNTS['attn_q']}")
    if module == "attn_k":
        num_heads = header.metadata.get(f"llama.{_HEAD_COUNTS['attn_k']}", num_heads)
    if not isinstance(num_heads, int) or num_heads < 1 or tensor.shape[0] % (2 * num_heads):
        raise ModelIntegrityError(
            f"{header.path} has {num_heads!r:.50} heads for {tensor.name} of {tensor.shape[0]}"
            " rows: download it again."
        )
    return _rotary_order(tensor.shape[0], num_heads)


def _stored_format(type_: GGMLQuantizationType, shape: tuple[int, ...]) -> WeightFormat | None:
    """Return the format in which a matrix keeps its blocks; None if it becomes plain numbers."""
    return FORMATS.get(type_.name.lower()) if len(shape) == 2 else None


def _decode(
    type_: GGMLQuantizationType, raw: torch.Tensor, shape: tuple[int, ...]
) -> CheckpointWeight:
    """raw: [n] uint8, the bytes of a tensor of this shape"""
    if type_ in _PLAIN:
        return raw.view(_PLAIN[type_]).view(shape)
    if (format_ := _stored_format(type_, shape)) is not None:
        return StoredWeight(format_, raw.view(shape[0], -1), shape[1])
    blocks = raw.numpy().reshape(quant_shape_to_byte_shape(shape, type_))
    return torch.from_numpy(dequantize(blocks, type_).reshape(shape))


def _rotary_order(num_rows: int, num_heads: int) -> torch.Tensor:
    """Return which row of a GGUF file's query or key projection is row 0, 1, ... of ours.

    A rotary embedding rotates pairs of features. Hugging Face pairs feature i of a head with
    feature i + head_size/2; llama.cpp pairs the neighbours 2i and 2i + 1. So the rows of a head are
    [half, 2] in a GGUF file and [2, half] in a Hugging Face checkpoint.
    """
    rows = torch.arange(num_rows).view(num_heads, -1, 2)
    return rows.transpose(1, 2).reshape(-1)
