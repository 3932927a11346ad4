"""Read the header of a GGUF file: its metadata, and its table of tensors.

GGUF is llama.cpp's format:

    header     typed key-value pairs: the model's configuration and its whole tokenizer
    table      name, shape, type and offset of each tensor
    tensors    mostly quantized in small blocks; see `gguf_weights`

A damaged file can declare an array of 2**60 elements, and the reader of the `gguf` library would
loop over all of them. Here every count has a limit, and no read passes the end of the file.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from minivllm.errors import ModelIntegrityError

_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
"""GGUF value type -> the format that `struct` needs for it."""
_STRING, _ARRAY = 8, 9
_MAX_HEADER_BYTES = 64 << 20
"""Enough: the largest vocabularies, with their merges, take 15 MB."""
_MAX_ITEMS = 1 << 22
"""Limit for one array: the list takes 32 MB. A vocabulary has a few hundred thousand tokens."""
_MAX_TENSORS = _MAX_PAIRS = 1 << 16
_TOO_LONG = "it ends within its header, or the header is implausibly large"


class _DamageError(Exception):
    """The file is damaged; the message says how, and the caller adds the path."""


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
    tensors: dict[str, GgufTensor]


def read_gguf_header(path: Path, *, arrays: bool = True) -> GgufHeader:
    """Read and check the header of `path`. `arrays=False` omits arrays: a vocabulary takes long.

    Raises `ModelIntegrityError` if the file is not a GGUF file, or is damaged or truncated.
    """
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            metadata, tensors = _Reader(file, size, arrays).header()
    except _DamageError as damage:
        raise ModelIntegrityError(
            f"{path} is not a complete GGUF file ({damage}): delete it and download it again."
        ) from None
    return GgufHeader(path, metadata, tensors)


class _Reader:
    """Reads a header from start to end, never past the end of the file."""

    def __init__(self, file: BinaryIO, size: int, arrays: bool) -> None:
        self._file = file
        self._size = size
        self._arrays = arrays
        self._end = min(size, _MAX_HEADER_BYTES)

    def header(self) -> tuple[dict[str, Any], dict[str, GgufTensor]]:
        if self._bytes(4) != b"GGUF":
            raise _DamageError("it does not begin with GGUF")
        version = self._scalar("<I")
        if version not in (2, 3):
            raise _DamageError(f"version {version} instead of 2 or 3")
        num_tensors, num_pairs = self._scalar("<Q"), self._scalar("<Q")
        if num_tensors > _MAX_TENSORS or num_pairs > _MAX_PAIRS:
            raise _DamageError(f"{num_tensors} tensors and {num_pairs} settings")
        metadata: dict[str, Any] = {}
        for _ in range(num_pairs):
            key = self._string()
            metadata[key] = self._value(self._scalar("<I"))
        claims = [self._tensor_claim() for _ in range(num_tensors)]
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise _DamageError("its alignment is not a positive number")
        data_start = math.ceil(self._file.tell() / alignment) * alignment
        tensors = {}
        end = data_start
        for name, shape, type_, offset in sorted(claims, key=lambda claim: claim[3]):
            if name in tensors or data_start + offset < end:
                raise _DamageError(f"tensor {name!r:.100} appears twice or overlaps another tensor")
            tensors[name] = self._place(name, shape, type_, data_start + offset)
            end = data_start + offset + tensors[name].num_bytes
        return metadata, tensors

    def _tensor_claim(self) -> tuple[str, tuple[int, ...], GGMLQuantizationType, int]:
        name = self._string()
        num_dims = self._scalar("<I")
        if not 1 <= num_dims <= 4:
            raise _DamageError(f"tensor {name!r:.100} has {num_dims} dimensions")
        shape = tuple(reversed([self._scalar("<Q") for _ in range(num_dims)]))
        type_id = self._scalar("<I")
        try:
            type_ = GGMLQuantizationType(type_id)
        except ValueError:
            raise _DamageError(f"tensor {name!r:.100} has the unknown type {type_id}") from None
        return name, shape, type_, self._scalar("<Q")

    def _place(
        self, name: str, shape: tuple[int, ...], type_: GGMLQuantizationType, offset: int
    ) -> GgufTensor:
        block_elements, block_bytes = GGML_QUANT_SIZES[type_]
        if shape[-1] % block_elements:
            raise _DamageError(f"the rows of tensor {name!r:.100} are not whole blocks")
        num_bytes = math.prod(shape) // block_elements * block_bytes
        if offset + num_bytes > self._size:
            raise _DamageError(
                f"tensor {name!r:.100} ends at byte {offset + num_bytes}, but the file ends at"
                f" byte {self._size}"
            )
        return GgufTensor(name, shape, type_, offset, num_bytes)

    def _value(self, type_id: int) -> Any:
        if type_id == _STRING:
            return self._string()
        if type_id == _ARRAY:
            item_type, length = self._scalar("<I"), self._scalar("<Q")
            if length > _MAX_ITEMS:
                raise _DamageError(f"an array of {length} values")
            if item_type in _SCALARS:
                dtype = np.dtype(_SCALARS[item_type])  # numpy accepts struct's formats
                return np.frombuffer(self._bytes(length * dtype.itemsize), dtype).tolist()
            if item_type != _STRING:
                raise _DamageError(f"an array of values of type {item_type}")
            if not self._arrays:
                return self._skip_strings(length)
            return [self._string() for _ in range(length)]
        if type_id not in _SCALARS:
            raise _DamageError(f"unknown value type {type_id}")
        return self._scalar(_SCALARS[type_id])

    def _string(self) -> str:
        try:
            return self._bytes(self._scalar("<Q")).decode("utf-8")
        except UnicodeDecodeError:
            raise _DamageError("a string in its header is not UTF-8") from None

    def _skip_strings(self, length: int) -> None:
        read, seek, unpack = self._file.read, self._file.seek, struct.Struct("<Q").unpack
        position = self._file.tell()
        for _ in range(length):
            position += 8
            if position <= self._end:
                position += unpack(read(8))[0]
            if position > self._end:
                raise _DamageError(_TOO_LONG)
            seek(position)

    def _scalar(self, spelling: str) -> Any:
        return struct.unpack(spelling, self._bytes(struct.calcsize(spelling)))[0]

    def _bytes(self, count: int) -> bytes:
        if self._file.tell() + count > self._end:
            raise _DamageError(_TOO_LONG)
        return self._file.read(count)
