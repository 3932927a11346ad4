"""Stream a checkpoint's weights: read one tensor at a time into its own memory.

Most loaders map the file into memory, where its pages stay beside the model's copy: the peak is
twice the size of the weights. Here each tensor gets its own memory, which is freed when the caller
drops the tensor. So the caller must not collect the tensors in a list. A matrix that is to be
quantized is read some rows at a time, and is never whole in the file's dtype.

The C library keeps freed memory in holes that no later tensor fits into, so `trim_heap` returns
them to the system every 32 MiB.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

import torch

from minivllm.config import Quantization
from minivllm.errors import ModelIntegrityError
from minivllm.runtime.checkpoint.checkpoint import weight_files
from minivllm.runtime.checkpoint.safetensors_file import read_entries
from minivllm.runtime.checkpoint.weight_entry import WeightEntry
from minivllm.runtime.cpu.heap import trim_heap
from minivllm.runtime.progress import OnRead, uncounted
from minivllm.runtime.quantization.stored_weight import (
    CheckpointWeight,
    StoredWeight,
    rows_at_once,
)

_TORCH_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
_BYTES_BETWEEN_TRIMS = 32 << 20


def weight_entries(path: Path) -> list[WeightEntry]:
    """Return the weights of one file, in file order; reads only the header."""
    if path.suffix != ".gguf":
        return [
            WeightEntry(
                entry.name,
                entry.shape,
                entry.offset,
                entry.num_bytes,
                partial(_decode, _TORCH_DTYPES[entry.dtype]),
            )
            for entry in read_entries(path)
        ]
    # Import the gguf library only for GGUF files.
    from minivllm.runtime.checkpoint.gguf_file import read_gguf_header
    from minivllm.runtime.checkpoint.gguf_weights import gguf_entries

    return gguf_entries(read_gguf_header(path, arrays=False))


def file_bytes(directory: Path) -> int:
    """Return the bytes of all weights in the checkpoint's files; reads only the headers."""
    return sum(
        entry.num_bytes for path in weight_files(directory) for entry in weight_entries(path)
    )


def _decode(dtype: torch.dtype, raw: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    return raw.view(dtype).view(shape)


def stream_weights(
    directory: Path, on_read: OnRead = uncounted, quantization: Quantization | None = None
) -> Iterator[tuple[str, CheckpointWeight]]:
    """Yield (name, weight) for all weights, in file order, as the files store them.

    With `quantization`, matrices of plain numbers are quantized; norms and biases stay as they are.
    All headers are checked before the first tensor is read. Raises `ModelIntegrityError` or
    `UnsupportedModelError`.
    """
    files = [(path, weight_entries(path)) for path in weight_files(directory)]
    seen: set[str] = set()
    for _, entries in files:
        for entry in entries:
            if entry.name in seen:
                raise ModelIntegrityError(
                    f"{directory} has the tensor {entry.name} in two files: download the model"
                    " again."
                )
            seen.add(entry.name)
    num_bytes = sum(entry.num_bytes for _, entries in files for entry in entries)
    num_read = since_trim = 0
    for path, entries in files:
        with path.open("rb") as file:
            for entry in entries:
                yield entry.name, _read_weight(file, entry, quantization)
                num_read += entry.num_bytes
                on_read(num_read, num_bytes)
                since_trim += entry.num_bytes
                if since_trim >= _BYTES_BETWEEN_TRIMS:
                    trim_heap()
                    since_trim = 0
    trim_heap()


def _read_weight(
    file: BinaryIO, entry: WeightEntry, quantization: Quantization | None
) -> CheckpointWeight:
    is_matrix = len(entry.shape) == 2 and entry.num_bytes > 0
    if quantization is not None and is_matrix and not entry.is_quantized:
        weight = StoredWeight.quantize_rows_int8(_read_rows(file, entry), entry.shape)
    else:
        weight = entry.decode(_read(file, entry.offset, entry.num_bytes), entry.shape)
    if entry.row_order is None:
        return weight
    if isinstance(weight, StoredWeight):
        return weight.rows(entry.row_order)
    return weight[entry.row_order]


def _read_rows(file: BinaryIO, entry: WeightEntry) -> Iterator[torch.Tensor]:
    """Yield a matrix of plain numbers from the first row to the last, some rows at a time."""
    num_rows, in_features = entry.shape
    row_bytes = entry.num_bytes // num_rows
    at_once = rows_at_once(in_features)
    for first in range(0, num_rows, at_once):
        num = min(at_once, num_rows - first)
        raw = _read(file, entry.offset + first * row_bytes, num * row_bytes)
        yield entry.decode(raw, (num, in_features))


def _read(file: BinaryIO, offset: int, num_bytes: int) -> torch.Tensor:
    raw = torch.empty(num_bytes, dtype=torch.uint8)
    file.seek(offset)
    if file.readinto(raw.numpy()) != num_bytes:
        raise ModelIntegrityError(
            f"{file.name} became shorter while it was read: do not change it during loading."
        )
    return raw
