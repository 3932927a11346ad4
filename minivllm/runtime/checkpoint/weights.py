"""Stream a checkpoint's weights: one tensor at a time, each in a mapping of its own.

A mapping of the whole file would keep its pages beside the model's copy, and the peak would be
twice the size of the weights. Here each tensor's pages go when the caller drops it, so the caller
must not collect them in a list. A matrix that is to be quantized is read some rows at a time. glibc
keeps what is freed between them (`trim_heap`), so that is returned to the system every 32 MiB.
"""

from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from minivllm import runtime
from minivllm.config import Quantization
from minivllm.errors import ModelIntegrityError, UnsupportedModelError
from minivllm.runtime.checkpoint.checkpoint import weight_files
from minivllm.runtime.cpu.heap import trim_heap
from minivllm.runtime.quantization.stored_weight import (
    CheckpointWeight,
    StoredWeight,
    WeightEntry,
    in_row_order,
    rows_at_once,
)

_BYTES_BETWEEN_TRIMS = 32 << 20
_ITEM_SIZE = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""Bytes per element of the dtypes that hold plain, unquantized weights in safetensors."""


def weight_entries(path: Path) -> list[WeightEntry]:
    """Return the weights of one file; reads only the header.

    Raises `ModelIntegrityError` if the header does not match the file, and `UnsupportedModelError`
    if the weights have a type that nothing here can read.
    """
    if path.suffix == ".gguf":
        return runtime.gguf_entries(runtime.read_gguf_header(path))
    entries = []
    try:
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118  (a safe_open is no dictionary)
                weight = file.get_slice(name)
                shape, dtype = tuple(weight.get_shape()), weight.get_dtype()
                if dtype not in _ITEM_SIZE:
                    raise UnsupportedModelError(
                        f"Tensor {name!r:.100} in {path} has type {dtype}: quantized checkpoints"
                        f" are not supported, use the model's {'/'.join(_ITEM_SIZE)} weights."
                    )
                num_bytes = prod(shape) * _ITEM_SIZE[dtype]
                entries.append(WeightEntry(name, shape, dtype, num_bytes, _reader(path, name)))
    except SafetensorError as error:
        raise ModelIntegrityError(
            f"{path} is damaged ({str(error)!r:.200}): delete it and download it again."
        ) from None
    return entries


def _reader(path: Path, name: str) -> Callable[[slice], torch.Tensor]:
    def read(rows: slice) -> torch.Tensor:
        with safe_open(path, framework="pt") as file:
            return file.get_tensor(name) if rows == slice(None) else file.get_slice(name)[rows]

    return read


def all_entries(directory: Path) -> list[WeightEntry]:
    """Return the weights of a checkpoint in all its files; see `weight_entries`."""
    return [entry for path in weight_files(directory) for entry in weight_entries(path)]


def stream_weights(
    directory: Path, quantization: Quantization | None = None
) -> Iterator[tuple[str, CheckpointWeight]]:
    """Yield (name, weight) for all weights, as the files store them, after checking all headers.

    With `quantization`, matrices of plain numbers are quantized; norms and biases stay as they are.
    Raises as `weight_entries` does.
    """
    num_read = 0
    for entry in all_entries(directory):
        yield entry.name, _read_weight(entry, quantization)
        num_read += entry.num_bytes
        if num_read >= _BYTES_BETWEEN_TRIMS:
            trim_heap()
            num_read = 0
    trim_heap()


def _read_weight(entry: WeightEntry, quantization: Quantization | None) -> CheckpointWeight:
    is_matrix = len(entry.shape) == 2 and entry.num_bytes > 0
    if quantization is not None and is_matrix and not entry.is_quantized:
        num_rows, at_once = entry.shape[0], rows_at_once(entry.shape[1])
        pieces = (
            entry.read(slice(first, min(first + at_once, num_rows)))
            for first in range(0, num_rows, at_once)
        )
        weight = StoredWeight.quantize_int8(pieces, entry.shape)
    else:
        weight = entry.read(slice(None))
    return in_row_order(weight, entry.row_order)
