"""Stream a checkpoint's weights: read one tensor at a time into its own memory.

Most loaders map the file into memory, where its pages stay beside the model's copy: the peak is
twice the size of the weights. Here each tensor gets its own memory, which is freed when the caller
drops the tensor. So the caller must not collect the tensors in a list.

The C library keeps freed memory in holes that no later tensor fits into, so `trim_heap` returns
them to the system every 32 MiB.
"""

from collections.abc import Iterator
from pathlib import Path

import torch

from minivllm.errors import ModelIntegrityError
from minivllm.runtime.checkpoint.checkpoint import weight_files
from minivllm.runtime.checkpoint.safetensors_file import read_entries
from minivllm.runtime.cpu.heap import trim_heap
from minivllm.runtime.progress import OnRead, uncounted

_TORCH_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
_BYTES_BETWEEN_TRIMS = 32 << 20


def stream_weights(
    directory: Path, on_read: OnRead = uncounted
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (name, tensor) for all weights, in file order; on the CPU, in the file's dtype.

    All headers are checked before the first tensor is read. Raises `ModelIntegrityError` or
    `UnsupportedModelError`.
    """
    files = [(path, read_entries(path)) for path in weight_files(directory)]
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
                yield entry.name, raw.view(_TORCH_DTYPES[entry.dtype]).view(entry.shape)
                del raw
                num_read += entry.num_bytes
                on_read(num_read, num_bytes)
                since_trim += entry.num_bytes
                if since_trim >= _BYTES_BETWEEN_TRIMS:
                    trim_heap()
                    since_trim = 0
    trim_heap()
