"""Memory for weights in large pages, where the system has them for whoever asks (Linux, `madvise`).

A step reads all weights once. In pages of 4 KiB that are a hundred thousand addresses to translate,
for each of which a page table is read, too; in pages of 2 MiB a few hundred. Knows bytes and
tensors, nothing of matrices.

Easy to get wrong: a large page is whole and aligned, or there is none. A matrix of its own of three
megabytes holds one at best, so matrices lie in pieces of 64 MiB, one after another. What is left of
a piece costs nothing: no page is there before it is written to.

Source: `man 2 madvise`, MADV_HUGEPAGE.
"""

import ctypes
import math

import torch

PIECE_BYTES = 64 << 20
LARGE_PAGE_BYTES = 2 << 20
LINE_BYTES = 64
"""Every tensor begins at a line of the cache."""
_MADV_HUGEPAGE = 14


class LargePages:
    """Hands out tensors, one after another. They own the memory together: it is given back when the
    last of them is gone.
    """

    def __init__(self) -> None:
        self._left = torch.empty(0, dtype=torch.uint8)

    def empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """As `torch.empty` on a CPU."""
        size = math.prod(shape) * dtype.itemsize
        if self._left.numel() < size:
            self._left = _piece(max(size, PIECE_BYTES))
        taken = self._left[:size]
        self._left = self._left[-(-size // LINE_BYTES) * LINE_BYTES :]
        return taken.view(dtype).view(shape)


def _piece(size: int) -> torch.Tensor:
    """`size` bytes that begin at a large page, which the system was asked for."""
    memory = torch.empty(size + LARGE_PAGE_BYTES, dtype=torch.uint8)
    piece = memory[-memory.data_ptr() % LARGE_PAGE_BYTES :][:size]
    madvise = getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is not None:
        # What it answers does not matter: without large pages the memory is as good as ever, and a
        # little slower.
        madvise(ctypes.c_void_p(piece.data_ptr()), ctypes.c_size_t(size), _MADV_HUGEPAGE)
    return piece
