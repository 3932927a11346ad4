"""Stream a checkpoint's weights: one tensor at a time, read straight into its own memory.

Knows safetensors files and torch; nothing of models. The usual way, mapping the file into memory,
leaves every page that was read resident beside the copy that the model made: twice the weights at
the peak. Here a tensor's bytes go from the file into one fresh tensor, which is freed as soon as
the consumer lets go of it.

Easy to get wrong: letting go of it. A generator's caller that keeps `list(stream_weights(...))`
holds a second copy after all; and the C library keeps what was freed, in holes that no later tensor
fits into, unless it is told now and then to give them back.
"""

from collections.abc import Iterator
from pathlib import Path

import torch

from minivllm.errors import ModelIntegrityError
from minivllm.runtime.checkpoint.checkpoint import weight_files
from minivllm.runtime.checkpoint.safetensors_file import read_entries
from minivllm.runtime.cpu.heap import trim_heap

_TORCH_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
_BYTES_BETWEEN_TRIMS = 32 << 20


def stream_weights(directory: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, tensor on the CPU in the file's dtype) for all weights of the checkpoint, in file
    order.

    All headers are checked before the first tensor is read. Raises `ModelIntegrityError`,
    `UnsupportedModelError`.
    """
    files = [(path, read_entries(path)) for path in weight_files(directory)]
    seen: set[str] = set()
    for _, entries in files:
        for entry in entries:
            if entry.name in seen:
                raise ModelIntegrityError(
                    f"{directory} has tensor {entry.name} in two files: download the model again."
                )
            seen.add(entry.name)
    since_trim = 0
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
                since_trim += entry.num_bytes
                if since_trim >= _BYTES_BETWEEN_TRIMS:
                    trim_heap()
                    since_trim = 0
    trim_heap()
