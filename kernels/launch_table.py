"""How attention kernels are launched: one table per kernel with tile sizes, warps and stages.

The entries change the speed of a kernel, never its result. `minivllm bench kernels` measures them
on a device: change an entry, and compare.

    rows     query rows per program. A matrix instruction needs at least 16 rows, which is enough
             for a decode. In a chunk, more rows share each loaded key; 128 rows of 128 numbers fill
             the registers of 8 warps.
    tile     positions loaded at once. Small tiles leave the memory idle between loads; large tiles
             leave no registers for the scores.
    warps    warps per program. Decoding waits for memory, so few warps per program are best: more
             programs then fit on a multiprocessor.
    stages   tiles that are loaded while another tile is computed. Each stage takes shared memory
             for one tile. Block ids are loaded one stage before their keys.
    registers    registers per thread. A multiprocessor has 65,536. With 128 per thread, two
             programs of 8 warps fit: one multiplies while the other computes its softmax.

Source: measurements on an H100, 2026-11-22 (docs/measured/gpu/sweep.json); medians of nine runs.
"""

from dataclasses import dataclass

import torch

from minivllm.kernels.attention.online_softmax import MIN_DOT, padded_head_size
from minivllm.kernels.mode import triton


@dataclass(frozen=True, slots=True)
class LaunchParameters:
    """How one kernel is launched, for one head size and one number of bytes per element."""

    rows: int
    """Minimum number of (token, head) pairs per program; see `rows_of`."""
    tile: int
    num_warps: int
    num_stages: int
    max_registers: int | None = None
    """Limit per thread; the compiler spills what does not fit. None lets the compiler choose."""

    @property
    def options(self) -> dict[str, int]:
        options = {"num_warps": self.num_warps, "num_stages": self.num_stages}
        return options if self.max_registers is None else options | {"maxnreg": self.max_registers}

    def rows_of(self, group: int) -> int:
        """Rows per program: a power of two, with a row for each query head that shares a key."""
        return max(self.rows, triton.next_power_of_2(group))


# (padded head size, bytes per number) -> launch parameters. Heads below 64 use the entry of 64.
# The entries of 4 bytes are not tuned, because float32 serves only to compare tokens. There are no
# float32 matrix instructions, so these kernels need many registers, and therefore many warps.
DECODE = {
    # Nearly all candidates reach the memory's full bandwidth. An exception: with head size 64,
    # tiles of 32 positions are 8 to 13 % slower.
    (64, 2): LaunchParameters(rows=MIN_DOT, tile=128, num_warps=4, num_stages=3),
    (128, 2): LaunchParameters(rows=MIN_DOT, tile=64, num_warps=2, num_stages=3),
    (256, 2): LaunchParameters(rows=MIN_DOT, tile=32, num_warps=4, num_stages=3),
    (64, 4): LaunchParameters(rows=MIN_DOT, tile=64, num_warps=8, num_stages=3),
    (128, 4): LaunchParameters(rows=MIN_DOT, tile=32, num_warps=8, num_stages=3),
    (256, 4): LaunchParameters(rows=MIN_DOT, tile=16, num_warps=8, num_stages=3),
}
PREFILL = {
    # With 128 registers per thread, four programs of 4 warps fit on a multiprocessor. Without this
    # limit, the kernel takes 13 to 15 % longer.
    (64, 2): LaunchParameters(rows=64, tile=64, num_warps=4, num_stages=2, max_registers=128),
    # Two programs of 8 warps fit. With the limit, 100 bytes per thread are spilled, but without the
    # limit the kernel takes 17 to 32 % longer.
    (128, 2): LaunchParameters(rows=128, tile=64, num_warps=8, num_stages=3, max_registers=128),
    # With 128 rows, the kernel takes 11 % less time on an H100, but does not fit into the shared
    # memory of smaller GPUs (99 KiB).
    (256, 2): LaunchParameters(rows=64, tile=64, num_warps=4, num_stages=2),
    (64, 4): LaunchParameters(rows=32, tile=32, num_warps=8, num_stages=3),
    (128, 4): LaunchParameters(rows=32, tile=32, num_warps=8, num_stages=3),
    (256, 4): LaunchParameters(rows=32, tile=16, num_warps=8, num_stages=3),
}
UNIFIED = {
    # In a mixed batch, a program that serves a decode uses the rows of one token only. So head size
    # 128 gets fewer rows here than in PREFILL.
    (64, 2): LaunchParameters(rows=64, tile=64, num_warps=4, num_stages=3),
    (128, 2): LaunchParameters(rows=64, tile=64, num_warps=4, num_stages=3),
    (256, 2): LaunchParameters(rows=64, tile=64, num_warps=4, num_stages=2),
    **{key: launch for key, launch in PREFILL.items() if key[1] == 4},
}
# Decode steps in the unified kernel. Its binary search for the sequence takes registers too. With 2
# warps and tiles of 64, a thread needs 194, and the kernel reached 81 % of the speed of a memory
# copy; with one warp and tiles of 32, it reached 97 % in the next report.
UNIFIED_DECODE = DECODE | {
    (128, 2): LaunchParameters(rows=MIN_DOT, tile=32, num_warps=1, num_stages=3)
}

# How many programs share a context (`choose_num_splits`).
PROGRAMS_PER_PROCESSOR = 4
"""Registers and shared memory allow no more programs; others would wait and add parts to merge."""
MIN_TOKENS_PER_SPLIT = 64
"""One tile. In a CUDA graph, 512 tokens take 5.6 us in 8 parts, 6.7 us in 4 and 10.8 us in one."""
MAX_SPLITS = 64
"""64 parts are 2 % faster than 32 for 16,384 tokens, and still fit the reduction's registers."""


def decode_launch(head_size: int, dtype: torch.dtype) -> LaunchParameters:
    """Return the parameters for sequences with one new token each."""
    return DECODE[_key(head_size, dtype)]


def prefill_launch(head_size: int, dtype: torch.dtype) -> LaunchParameters:
    """Return the parameters for chunks of several tokens."""
    return PREFILL[_key(head_size, dtype)]


def unified_launch(head_size: int, dtype: torch.dtype, *, has_chunks: bool) -> LaunchParameters:
    """Return the parameters for a whole batch in one launch, with chunks or only decodes."""
    return (UNIFIED if has_chunks else UNIFIED_DECODE)[_key(head_size, dtype)]


def _key(head_size: int, dtype: torch.dtype) -> tuple[int, int]:
    return max(64, padded_head_size(head_size)), dtype.itemsize
