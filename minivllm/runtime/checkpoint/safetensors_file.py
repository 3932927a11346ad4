"""The safetensors format: read and check the header of a file, write a file as a stream.

    8 bytes       length of the header, little-endian
    header        JSON: name -> dtype, shape, begin and end offset
    raw bytes     the tensors, without gaps

The header is untrusted. Every number in it is checked against the file's real size *before* any
memory is allocated, so a truncated download gives a clear error, not a crash during loading.

Format: https://github.com/huggingface/safetensors#format
"""

import json
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minivllm.errors import ModelIntegrityError, UnsupportedModelError

ITEM_SIZE = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""Bytes per element of the dtypes that hold plain, unquantized weights."""
_MAX_HEADER_BYTES = 16 << 20
"""Enough for 100,000 tensors. The format allows a header of 100 MB, but parsing one of that size
takes over a gigabyte of memory in Python.
"""
_MAX_DIMENSIONS = 8


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """The place of one tensor in a file."""

    name: str
    dtype: str
    """A key of `ITEM_SIZE`."""
    shape: tuple[int, ...]
    offset: int
    """Bytes from the start of the file."""
    num_bytes: int


def read_entries(path: Path) -> list[TensorEntry]:
    """Return the tensors of `path`, in file order.

    Raises `ModelIntegrityError` if the header does not match the file, and `UnsupportedModelError`
    if the weights are quantized.
    """
    file_size = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(8)
        header_size = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
        if not 2 <= header_size <= min(_MAX_HEADER_BYTES, file_size - 8):
            raise _corrupt(path, "it does not start with a safetensors header")
        try:
            header = json.loads(file.read(header_size))
        except (ValueError, RecursionError):
            raise _corrupt(path, "its header is not JSON") from None
    if not isinstance(header, dict):
        raise _corrupt(path, "its header is not a JSON object")
    header.pop("__metadata__", None)

    data_start = 8 + header_size
    entries = sorted(
        (_parse_entry(path, *item, data_start) for item in header.items()), key=lambda e: e.offset
    )
    # The format allows no gaps and no overlaps: the tensors must fill the rest of the file exactly.
    position = data_start
    for entry in entries:
        if entry.offset != position:
            raise _corrupt(
                path, f"tensor {entry.name!r:.100} does not start where the previous one ends"
            )
        position += entry.num_bytes
    if position != file_size:
        raise _corrupt(path, f"it should have {position} bytes but has {file_size}")
    return entries


def _parse_entry(path: Path, name: str, claim: Any, data_start: int) -> TensorEntry:
    try:
        dtype, shape, (begin, end) = claim["dtype"], tuple(claim["shape"]), claim["data_offsets"]
    except (TypeError, KeyError, ValueError):
        raise _corrupt(path, f"its entry for tensor {name!r:.100} is malformed") from None
    # Limit the numbers before multiplying: the product of a thousand numbers with a thousand digits
    # takes minutes.
    numbers = (*shape, begin, end) if len(shape) <= _MAX_DIMENSIONS else ()
    if (
        not numbers
        or not isinstance(dtype, str)
        or not all(type(n) is int and 0 <= n < 1 << 63 for n in numbers)
    ):
        raise _corrupt(path, f"its entry for tensor {name!r:.100} is malformed")
    if dtype not in ITEM_SIZE:
        raise UnsupportedModelError(
            f"Tensor {name!r:.100} in {path} has type {dtype!r:.20}: quantized checkpoints are not"
            f" supported, use the model's {'/'.join(ITEM_SIZE)} weights."
        )
    if end - begin != math.prod(shape) * ITEM_SIZE[dtype]:
        raise _corrupt(
            path, f"tensor {name!r:.100} has {end - begin} bytes, which does not match its shape"
        )
    return TensorEntry(name, dtype, shape, data_start + begin, end - begin)


def _corrupt(path: Path, reason: str) -> ModelIntegrityError:
    return ModelIntegrityError(f"{path} is damaged ({reason}): delete it and download it again.")


def write_float32(
    path: Path, shapes: dict[str, tuple[int, ...]], arrays: Iterable[tuple[str, np.ndarray]]
) -> None:
    """Write `arrays`, in the order of `shapes`, as float32.

    The header needs only the shapes, so only one array at a time is in memory.
    """
    # transformers refuses files without this entry.
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    position = 0
    for name, shape in shapes.items():
        end = position + math.prod(shape) * ITEM_SIZE["F32"]
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [position, end]}
        position = end
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)  # to align the data
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(encoded)))
        file.write(encoded)
        for (expected, shape), (name, array) in zip(shapes.items(), arrays, strict=True):
            if name != expected or array.shape != shape:
                raise ValueError(
                    f"expected tensor {expected} of shape {shape}, got {name} of shape"
                    f" {array.shape}"
                )
            file.write(np.ascontiguousarray(array, dtype="<f4").data)
