"""Stream a checkpoint's weights: read one tensor at a time into its own memory.

Most loaders map the file into memory, where its pages stay beside the model's copy: the peak is
twice the size of the weights. Here each tensor gets its own memory, which is freed when the caller
drops the tensor. So the caller must not collect the tensors in a list.

The C library keeps freed memory in holes that no later tensor fits into, so `trim_heap` returns
them to the system every 32 MiB.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from minivllm.errors import ModelIntegrityError
from minivllm.runtime.checkpoint.checkpoint import weight_files
from minivllm.runtime.checkpoint.safetensors_file import TensorEntry, read_entries
from minivllm.runtime.cpu.heap import trim_heap
from minivllm.runtime.progress import OnRead, uncounted
from minivllm.runtime.quantization.stored_weight import CheckpointWeight

_TORCH_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
_BYTES_BETWEEN_TRIMS = 32 << 20


@dataclass(frozen=True, slots=True)
class WeightEntry:
    """The place of one weight in a file, and how to read its bytes."""

    name: str
    """Hugging Face's name."""
    shape: tuple[int, ...]
    offset: int
    """Bytes from the start of the file."""
    num_bytes: int
    decode: Callable[[torch.Tensor], CheckpointWeight]
    """(the bytes: [num_bytes] uint8) -> the weight, which may share their memory"""


def weight_entries(path: Path) -> list[WeightEntry]:
    """Return the weights of one file, in file order; reads only the header."""
    if path.suffix != ".gguf":
        return [
            WeightEntry(entry.name, entry.shape, entry.offset, entry.num_bytes, _plain(entry))
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


def _plain(entry: TensorEntry) -> Callable[[torch.Tensor], torch.Tensor]:
    return partial(_decode, _TORCH_DTYPES[entry.dtype], entry.shape)


def _decode(dtype: torch.dtype, shape: tuple[int, ...], raw: torch.Tensor) -> torch.Tensor:
    return raw.view(dtype).view(shape)


def stream_weights(
    directory: Path, on_read: OnRead = uncounted
) -> Iterator[tuple[str, CheckpointWeight]]:
    """Yield (name, weight) for all weights, in file order, as the files store them.

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
                raw = torch.empty(entry.num_bytes, dtype=torch.uint8)
                file.seek(entry.offset)
                if file.readinto(raw.numpy()) != entry.num_bytes:
                    raise ModelIntegrityError(
                        f"{path} became shorter while it was read: do not change it during loading."
                    )
                yield entry.name, entry.decode(raw)
                del raw
                num_read += entry.num_bytes
                on_read(num_read, num_bytes)
                since_trim += entry.num_bytes
                if since_trim >= _BYTES_BETWEEN_TRIMS:
                    trim_heap()
                    since_trim = 0
    trim_heap()
