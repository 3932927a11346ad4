"""`LargePages`: memory for weights in large pages, on systems with `madvise` (Linux).

A step reads all weights once. With pages of 4 KiB, the processor must translate the addresses of a
hundred thousand pages, and reads a page table for each; of 2 MiB pages, there are a few hundred.

A large page must be whole and aligned: an allocation of three megabytes contains one at best. So
matrices are packed into pieces of 64 MiB, whose unused rest the system never allocates.

Source: `man 2 madvise`, MADV_HUGEPAGE.
"""

import ctypes
import math

import torch

PIECE_BYTES = 64 << 20
LARGE_PAGE_BYTES = 2 << 20
LINE_BYTES = 64
"""Every tensor starts at the start of a cache line."""
_MADV_HUGEPAGE = 14


class LargePages:
    """Allocates tensors one after another; a piece is freed together with the last tensor in it."""

    def __init__(self) -> None:
        self._left = torch.empty(0, dtype=torch.uint8)

    def empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Like `torch.empty` for a tensor on the CPU."""
        size = math.prod(shape) * dtype.itemsize
        if self._left.numel() < size:
            self._left = _piece(max(size, PIECE_BYTES))
        taken = self._left[:size]
        self._left = self._left[-(-size // LINE_BYTES) * LINE_BYTES :]
        return taken.view(dtype).view(shape)


def _piece(size: int) -> torch.Tensor:
    """Return `size` bytes that start at a large-page boundary; ask the system for large pages."""
    memory = torch.empty(size + LARGE_PAGE_BYTES, dtype=torch.uint8)
    piece = memory[-memory.data_ptr() % LARGE_PAGE_BYTES :][:size]
    madvise = getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is not None:
        # Ignore the result: without large pages, the memory is only a little slower.
        madvise(ctypes.c_void_p(piece.data_ptr()), ctypes.c_size_t(size), _MADV_HUGEPAGE)
    return piece
