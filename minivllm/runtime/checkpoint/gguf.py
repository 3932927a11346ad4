"""GGUF, llama.cpp's format: the header of a file, and its weights under Hugging Face's names.

    header     typed key-value pairs: the model's configuration and its whole tokenizer
    table      name, shape, type and offset of each tensor
    tensors    mostly quantized in small blocks

A matrix keeps its blocks if `FORMATS` has its type. Matrices of other types, such as Q5_K, become
float32 while they are read, and so do quantized vectors.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import re
import struct
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType
from gguf.gguf_reader import GGUFReader
from gguf.quants import dequantize, quant_shape_to_byte_shape

from minivllm.errors import ModelIntegrityError, UnsupportedModelError
from minivllm.runtime.quantization.formats import FORMATS, WeightFormat
from minivllm.runtime.quantization.stored_weight import CheckpointWeight, StoredWeight, WeightEntry

_MAX_STRING = 1 << 20
_MAX_COUNT = 1 << 16
"""Limit for tensors and for settings."""
_MAX_ITEMS = 1 << 22
"""Limit for one array. A vocabulary has a few hundred thousand tokens."""

GGUF_NAMES = {
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
"""llama.cpp's name of a module -> Hugging Face's name.

Modules of a layer have a prefix: `blk.3.` in llama.cpp, `model.layers.3.` in Hugging Face.
"""
_EXPERTS = {
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.{}.gate_proj",
    "ffn_up_exps": "mlp.experts.{}.up_proj",
    "ffn_down_exps": "mlp.experts.{}.down_proj",
}
_RESULT_NORMS = {
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_OTHER_NAMES = {
    **dict.fromkeys(("qwen3moe", "olmoe", "granitemoe"), _EXPERTS),
    "gemma3": {**_RESULT_NORMS, "ffn_norm": "pre_feedforward_layernorm"},
    "phi3": {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"},
    "olmo2": _RESULT_NORMS,
}
"""Architecture -> its names that the others lack."""
_ROPE_DIVISORS = ("rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight")
"""No weights, but settings: see `read_rope_divisors`."""
_REORDERED = ("llama", "granite", "granitemoe", "smollm3")
"""Architectures whose queries and keys llama.cpp reorders: see `_row_order`."""
_TENSOR_NAME = re.compile(r"(?:blk\.(?P<layer>\d+)\.)?(?P<module>\w+)\.(?P<kind>weight|bias)")
_PLAIN = {
    GGMLQuantizationType.F64: torch.float64,
    GGMLQuantizationType.F32: torch.float32,
    GGMLQuantizationType.F16: torch.float16,
    GGMLQuantizationType.BF16: torch.bfloat16,
}


class GgufTensor(NamedTuple):
    """The place of one tensor in its file."""

    path: Path
    name: str
    shape: tuple[int, ...]
    """Slowest dimension first, as in torch; the file uses the reverse order."""
    type: GGMLQuantizationType
    offset: int
    """Bytes from the start of the file."""
    num_bytes: int


class GgufArray(NamedTuple):
    """The place of an array of the header, after its key and type."""

    offset: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    path: Path
    num_files: int  # The first has the settings, and each some tensors.
    metadata: dict[str, Any]
    """The value of an array is a `GgufArray`; `read_array` returns its contents."""
    tensors: dict[str, GgufTensor]


# ---- the header ----


class _Reader(GGUFReader):
    """The library's reader, but arrays are skipped: it would make an object for every token of the
    vocabulary, three seconds for SmolLM2. Numbers that a damaged file declares have limits.
    """

    def _build_fields(self, offs: int, count: int) -> int:
        if max(count, self.fields["GGUF.tensor_count"].contents()) > _MAX_COUNT:
            raise ValueError(f"{count} settings, or more tensors")
        return super()._build_fields(offs, count)

    def _get_str(self, offset: int) -> tuple[np.ndarray, np.ndarray]:
        if (length := self._get(offset, np.uint64)[0]) > _MAX_STRING:
            raise ValueError(f"a string of {length} bytes")
        return super()._get_str(offset)

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list, list, list]:
        if raw_type != GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        data, unpack = memoryview(self.data), struct.Struct("<Q").unpack_from
        type_id, length = struct.unpack_from("<IQ", data, orig_offs)
        if length > _MAX_ITEMS:
            raise ValueError(f"an array of {length} values")
        end = orig_offs + 12
        if type_id == GGUFValueType.STRING:
            for _ in range(length):
                end += 8 + unpack(data, end)[0]
        else:
            end += length * np.dtype(self.gguf_scalar_to_np[type_id]).itemsize
        return end - orig_offs, [], [], [GGUFValueType.ARRAY]


def read_gguf_header(path: Path) -> GgufHeader:
    """Read and check the header of `path`, without its arrays, and the tensors of its other parts.

    Raises `ModelIntegrityError` if a file is not a GGUF file, or is damaged, truncated or missing.
    """
    header = _read_header(path)
    others = part_paths(path, header.num_files)[1:]
    missing = [part for part in others if not part.is_file()]
    if missing or (others and header.metadata.get("split.no")):
        raise ModelIntegrityError(
            f"{path} is one of {header.num_files} files: name the first, and keep all others beside"
            f" it, such as {(missing or others)[0].resolve()}."
        )
    for part in others:
        header.tensors.update(_read_header(part).tensors)
    return header


def part_paths(first: Path, num_files: int) -> list[Path]:
    """Return `first` and llama.cpp's names of the other files: x-00002-of-00003.gguf, ..."""
    stem, numbers = re.sub(r"-\d{5}-of-\d{5}$", "", first.stem), range(2, num_files + 1)
    return [first, *(first.with_name(f"{stem}-{i:05}-of-{num_files:05}.gguf") for i in numbers)]


def _read_header(path: Path) -> GgufHeader:
    try:
        reader = _Reader(path)
        if reader.byte_order != "I":
            raise ValueError("its numbers are big-endian")
        metadata = {
            field.name: GgufArray(field.offset + 12 + len(field.name.encode()))
            if field.types == [GGUFValueType.ARRAY]
            else field.contents()
            for field in reader.fields.values()
        }
        tensors, end = {}, reader.data_offset
        for found in sorted(reader.tensors, key=lambda tensor: tensor.data_offset):
            shape = tuple(reversed(found.shape.tolist()))
            if found.data_offset < end or not shape or not found.n_bytes:
                raise ValueError(f"tensor {found.name!r:.100} is empty or overlaps another tensor")
            end = found.data_offset + found.n_bytes
            tensors[found.name] = GgufTensor(
                path, found.name, shape, found.tensor_type, found.data_offset, found.n_bytes
            )
        num_files = metadata.get("split.count", 1)  # 0 in a file whose parts were joined again
        if not isinstance(num_files, int) or not 0 <= num_files < _MAX_COUNT:
            raise ValueError(f"it is one of {num_files!r:.50} files")
        header = GgufHeader(path, num_files, metadata, tensors)
        for key in metadata:
            # Some files have a number for each layer, such as Granite 4's.
            if key.endswith(".head_count_kv") and len(numbers := set(read_array(header, key))) == 1:
                metadata[key] = numbers.pop()
        return header
    except (ValueError, LookupError, OverflowError, struct.error) as error:
        raise ModelIntegrityError(
            f"{path} is not a complete GGUF file ({str(error)!r:.200}): delete it and download it"
            " again."
        ) from None


def read_array(header: GgufHeader, key: str) -> list[Any]:
    """Return the strings or numbers of an array of the header; [] if there is none."""
    if not isinstance(array := header.metadata.get(key), GgufArray):
        return []
    data = memoryview(np.memmap(header.path, np.uint8, "r"))
    type_id, length = struct.unpack_from("<IQ", data, array.offset)
    start = array.offset + 12
    if type_id != GGUFValueType.STRING:
        dtype = _Reader.gguf_scalar_to_np[type_id]
        return np.frombuffer(data, dtype, length, start).tolist()
    values = []
    for _ in range(length):
        end = start + 8 + struct.unpack_from("<Q", data, start)[0]
        values.append(str(data[start + 8 : end], "utf-8"))
        start = end
    return values


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
            _hf_name(header, tensor.name).format(expert),
            tensor.shape,
            tensor.type.name,
            tensor.num_bytes,
            partial(_read_norm if _adds_one(header, tensor) else _read, tensor),
            is_quantized=_stored_format(tensor) is not None,
            row_order=_row_order(header, tensor),
        )
        for whole in header.tensors.values()
        if whole.name not in _ROPE_DIVISORS
        for expert, tensor in enumerate(_matrices(whole))
    ]


def _matrices(tensor: GgufTensor) -> list[GgufTensor]:
    """Return the matrix of each expert of a tensor with three dimensions; else the tensor."""
    if len(tensor.shape) < 3:
        return [tensor]
    num_experts, *shape = tensor.shape
    size = tensor.num_bytes // num_experts
    return [
        tensor._replace(shape=tuple(shape), offset=tensor.offset + i * size, num_bytes=size)
        for i in range(num_experts)
    ]


def read_rope_divisors(header: GgufHeader) -> list[list[float]]:
    """Return the divisors of the rotary frequencies, [rotary size / 2], if there are any.

    Phi-3 has two such lists: for up to as many tokens as it was first trained for, and for more.
    """
    found = [header.tensors[name] for name in _ROPE_DIVISORS if name in header.tensors]
    if any(tensor.type not in _PLAIN or len(tensor.shape) != 1 for tensor in found):
        raise ModelIntegrityError(
            f"{header.path} has no list of numbers in {found[0].name}: download it again."
        )
    return [_read(tensor, slice(None)).tolist() for tensor in found]


def _hf_name(header: GgufHeader, name: str) -> str:
    """Return Hugging Face's name of a tensor. Raises `UnsupportedModelError` if it is unknown."""
    match = _TENSOR_NAME.fullmatch(name)
    names = GGUF_NAMES | _OTHER_NAMES.get(header.metadata.get("general.architecture"), {})
    if match is None or match["module"] not in names:
        raise UnsupportedModelError(
            f"{header.path} has the tensor {name!r:.100}, which no supported model of its"
            " architecture has."
        )
    layer = "" if match["layer"] is None else f"model.layers.{match['layer']}."
    return f"{layer}{names[match['module']]}.{match['kind']}"


def _stored_format(tensor: GgufTensor) -> WeightFormat | None:
    """Return the format in which a matrix keeps its blocks; None if it becomes plain numbers."""
    return FORMATS.get(tensor.type.name.lower()) if len(tensor.shape) == 2 else None


def _read(tensor: GgufTensor, rows: slice) -> CheckpointWeight:
    shape = quant_shape_to_byte_shape(tensor.shape, tensor.type)
    # Copy-on-write: torch wants memory that it may write to.
    data = np.memmap(tensor.path, np.uint8, "c", tensor.offset, shape)[rows]
    if tensor.type in _PLAIN:
        return torch.from_numpy(data).view(_PLAIN[tensor.type])
    if (format_ := _stored_format(tensor)) is not None:
        return StoredWeight(format_, torch.from_numpy(data), tensor.shape[1])
    return torch.from_numpy(dequantize(data, tensor.type))


def _adds_one(header: GgufHeader, tensor: GgufTensor) -> bool:
    """Whether the file has the factor of a norm, 1 + weight, and Hugging Face the weight."""
    is_gemma = header.metadata.get("general.architecture") == "gemma3"
    return is_gemma and tensor.name.endswith("_norm.weight")


def _read_norm(tensor: GgufTensor, rows: slice) -> CheckpointWeight:
    return _read(tensor, rows).float() - 1


def _row_order(header: GgufHeader, tensor: GgufTensor) -> torch.Tensor | None:
    """Return which row of a query or key projection is row 0, 1, ... of Hugging Face's.

    A rotary embedding rotates pairs of features. Hugging Face pairs feature i of a head with
    feature i + head_size/2; llama.cpp pairs the neighbours 2i and 2i + 1 for some architectures.
    Then the rows of a head are [half, 2] in a GGUF file and [2, half] in a Hugging Face
    checkpoint. In the wrong order, all shapes would be right, and the generated text wrong.
    Ernie 4.5 pairs neighbours in both.
    """
    module, metadata = tensor.name.split(".")[-2], header.metadata
    arch = metadata.get("general.architecture")
    if arch not in _REORDERED or module not in ("attn_q", "attn_k"):
        return None
    num_heads = metadata.get(f"{arch}.attention.head_count")
    if module == "attn_k":
        num_heads = metadata.get(f"{arch}.attention.head_count_kv", num_heads)
    num_rows = tensor.shape[0]
    if not isinstance(num_heads, int) or num_heads < 1 or num_rows % (2 * num_heads):
        raise ModelIntegrityError(
            f"{header.path} has {num_heads!r:.50} heads for {tensor.name} of {num_rows} rows:"
            " download it again."
        )
    return torch.arange(num_rows).view(num_heads, -1, 2).transpose(1, 2).reshape(-1)
