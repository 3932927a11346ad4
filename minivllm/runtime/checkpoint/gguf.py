"""GGUF, llama.cpp's format: the header of a file, and its weights under Hugging Face's names.

    header     typed key-value pairs: the model's configuration and its whole tokenizer
    table      name, shape, type and offset of each tensor
    tensors    mostly quantized in small blocks

The reader of the `gguf` library makes an object for every token: three seconds for SmolLM2. Here
arrays are skipped, which takes hundredths of a second. A damaged file can declare an array of 2**60
elements, so every count has a limit, and no read passes the end of the file.

A matrix keeps its blocks if `FORMATS` has its type. Matrices of other types, such as Q5_K, become
float32 while they are read, and so do quantized vectors.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import math
import mmap
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quant_shape_to_byte_shape

from minivllm.errors import ModelIntegrityError, UnsupportedModelError
from minivllm.runtime.checkpoint.weights import WeightEntry
from minivllm.runtime.quantization.formats import FORMATS, WeightFormat
from minivllm.runtime.quantization.stored_weight import CheckpointWeight, StoredWeight

_SCALARS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
"""GGUF value type -> the format that `struct` needs for it."""
_STRING, _ARRAY = 8, 9
_MAX_STRING = 1 << 20
_MAX_ITEMS = 1 << 22
"""Limit for one array. A vocabulary has a few hundred thousand tokens."""
_MAX_TENSORS = _MAX_PAIRS = 1 << 16

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


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """The place of one tensor in the file."""

    name: str
    shape: tuple[int, ...]
    """Slowest dimension first, as in torch; the file uses the reverse order."""
    type: GGMLQuantizationType
    offset: int
    """Bytes from the start of the file."""
    num_bytes: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    path: Path
    metadata: dict[str, Any]
    """The value is None for an array."""
    tensors: dict[str, GgufTensor]


# ---- the header ----


def read_gguf_header(path: Path) -> GgufHeader:
    """Read and check the header of `path`, without its arrays.

    Raises `ModelIntegrityError` if the file is not a GGUF file, or is damaged or truncated.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return GgufHeader(path, *_Reader(data).header())
    except (struct.error, OverflowError):
        reason = "it ends within its header"
    except (ValueError, KeyError) as error:  # mmap refuses an empty file
        reason = str(error)
    raise ModelIntegrityError(
        f"{path} is not a complete GGUF file ({reason}): delete it and download it again."
    )


class _Reader:
    """Reads a header from start to end. Raises `struct.error` at the end of the file."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data, self._at = data, 0

    def header(self) -> tuple[dict[str, Any], dict[str, GgufTensor]]:
        if self._data[:4] != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        self._at = 4
        version, num_tensors, num_pairs = self._scalar("I"), self._scalar("Q"), self._scalar("Q")
        if version not in (2, 3):
            raise ValueError(f"version {version} instead of 2 or 3")
        if num_tensors > _MAX_TENSORS or num_pairs > _MAX_PAIRS:
            raise ValueError(f"{num_tensors} tensors and {num_pairs} settings")
        metadata = {self._string(): self._value(self._scalar("I")) for _ in range(num_pairs)}
        claims = [self._tensor_claim() for _ in range(num_tensors)]
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise ValueError("its alignment is not a positive number")
        end = start = math.ceil(self._at / alignment) * alignment
        tensors: dict[str, GgufTensor] = {}
        for name, shape, type_, offset in sorted(claims, key=lambda claim: claim[3]):
            block_elements, block_bytes = GGML_QUANT_SIZES[type_]
            num_bytes = math.prod(shape) // block_elements * block_bytes
            if name in tensors or start + offset < end:
                raise ValueError(f"tensor {name!r:.100} appears twice or overlaps another tensor")
            if shape[-1] % block_elements or not num_bytes:
                raise ValueError(f"the rows of tensor {name!r:.100} are not whole blocks")
            tensors[name] = GgufTensor(name, shape, type_, start + offset, num_bytes)
            end = start + offset + num_bytes
        if end > len(self._data):
            raise ValueError(f"it should have {end} bytes but has {len(self._data)}")
        return metadata, tensors

    def _tensor_claim(self) -> tuple[str, tuple[int, ...], GGMLQuantizationType, int]:
        name, num_dims = self._string(), self._scalar("I")
        if not 1 <= num_dims <= 4:
            raise ValueError(f"tensor {name!r:.100} has {num_dims} dimensions")
        shape = tuple(reversed([self._scalar("Q") for _ in range(num_dims)]))
        return name, shape, GGMLQuantizationType(self._scalar("I")), self._scalar("Q")

    def _value(self, type_id: int) -> Any:
        if type_id == _STRING:
            return self._string()
        if type_id == _ARRAY:
            return self._skip_array(self._scalar("I"), self._scalar("Q"))
        if type_id not in _SCALARS:
            raise ValueError(f"unknown value type {type_id}")
        return self._scalar(_SCALARS[type_id])

    def _skip_array(self, type_id: int, length: int) -> None:
        if length > _MAX_ITEMS or (type_id != _STRING and type_id not in _SCALARS):
            raise ValueError(f"an array of {length} values of type {type_id}")
        if type_id in _SCALARS:
            self._at += length * struct.calcsize(f"<{_SCALARS[type_id]}")
            return
        data, at, unpack = self._data, self._at, struct.Struct("<Q").unpack_from
        for _ in range(length):
            at += 8 + unpack(data, at)[0]
        self._at = at

    def _string(self) -> str:
        length = self._scalar("Q")
        if length > _MAX_STRING:
            raise ValueError(f"a string of {length} bytes")
        return self._scalar(f"{length}s").decode("utf-8")

    def _scalar(self, spelling: str) -> Any:
        (value,) = struct.unpack_from(f"<{spelling}", self._data, self._at)
        self._at += struct.calcsize(f"<{spelling}")
        return value


# ---- the weights ----


def _check_types(header: GgufHeader) -> None:
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
    """Return the weights in file order. Raises `UnsupportedModelError` if one cannot be read."""
    _check_types(header)
    return [
        WeightEntry(
            _hf_name(header, tensor.name),
            tensor.shape,
            tensor.type.name,
            tensor.num_bytes,
            partial(_read, header.path, tensor),
            is_quantized=_stored_format(tensor) is not None,
            row_order=_row_order(header, tensor),
        )
        for tensor in header.tensors.values()
    ]


def _hf_name(header: GgufHeader, name: str) -> str:
    """Return Hugging Face's name of a tensor. Raises `UnsupportedModelError` if it is unknown."""
    match = _TENSOR_NAME.fullmatch(name)
    if match is None or match["module"] not in GGUF_NAMES:
        raise UnsupportedModelError(
            f"{header.path} has the tensor {name!r:.100}, which no supported model has."
        )
    layer = "" if match["layer"] is None else f"model.layers.{match['layer']}."
    return f"{layer}{GGUF_NAMES[match['module']]}.{match['kind']}"


def _stored_format(tensor: GgufTensor) -> WeightFormat | None:
    """Return the format in which a matrix keeps its blocks; None if it becomes plain numbers."""
    return FORMATS.get(tensor.type.name.lower()) if len(tensor.shape) == 2 else None


def _read(path: Path, tensor: GgufTensor, rows: slice) -> CheckpointWeight:
    shape = quant_shape_to_byte_shape(tensor.shape, tensor.type)
    # Copy-on-write: torch wants memory that it may write to.
    data = np.memmap(path, np.uint8, "c", tensor.offset, shape)[rows]
    if tensor.type in _PLAIN:
        return torch.from_numpy(data).view(_PLAIN[tensor.type])
    if (format_ := _stored_format(tensor)) is not None:
        return StoredWeight(format_, torch.from_numpy(data), tensor.shape[1])
    return torch.from_numpy(dequantize(data, tensor.type))


def _row_order(header: GgufHeader, tensor: GgufTensor) -> torch.Tensor | None:
    """Return which row of a query or key projection is row 0, 1, ... of Hugging Face's.

    A rotary embedding rotates pairs of features. Hugging Face pairs feature i of a head with
    feature i + head_size/2; llama.cpp pairs the neighbours 2i and 2i + 1. So for the architecture
    `llama`, the rows of a head are [half, 2] in a GGUF file and [2, half] in a Hugging Face
    checkpoint. In the wrong order, all shapes would be right, and the generated text wrong.
    """
    module, metadata = tensor.name.split(".")[-2], header.metadata
    if metadata.get("general.architecture") != "llama" or module not in _HEAD_COUNTS:
        return None
    num_heads = metadata.get(f"llama.{_HEAD_COUNTS['attn_q']}")
    if module == "attn_k":
        num_heads = metadata.get(f"llama.{_HEAD_COUNTS['attn_k']}", num_heads)
    num_rows = tensor.shape[0]
    if not isinstance(num_heads, int) or num_heads < 1 or num_rows % (2 * num_heads):
        raise ModelIntegrityError(
            f"{header.path} has {num_heads!r:.50} heads for {tensor.name} of {num_rows} rows:"
            " download it again."
        )
    return torch.arange(num_rows).view(num_heads, -1, 2).transpose(1, 2).reshape(-1)
