"""How attention kernels are launched: tile sizes, warps and pipeline stages, one small table a
kernel.

These numbers change speed and no result. `python tools/gpu_report tune` measures candidates on a
device and prints the entries to commit. What each number means:

    rows     query rows a program holds: 16 are the least that a matrix instruction takes, and all
             that decoding needs. A chunk wants more, since each key that is loaded then serves
             more queries; 128 rows of 128 numbers are all that the registers of 8 warps hold.
    tile     positions whose keys and values are loaded at once. Small tiles leave the memory idle
             between loads; large ones leave no registers for the scores.
    warps    what computes a tile. Decoding waits for memory, so few warps are best: more programs
             fit at once.
    stages   tiles that are on their way while one is computed. Each costs the shared memory of a
             tile, and block ids are loaded a stage before the keys that they lead to.
    registers    of a thread. A multiprocessor has 65,536, so with 128 two programs of 8 warps fit:
             one multiplies while the other takes its softmax.

Source: a sweep on an H100, 2026-11-22 (docs/measured/gpu/sweep.json); medians of nine runs.
"""

from dataclasses import dataclass

import torch

from minivllm.kernels.attention.online_softmax import MIN_DOT, padded_head_size
from minivllm.kernels.mode import triton


@dataclass(frozen=True, slots=True)
class LaunchParameters:
    """How one kernel is launched, for one head size and one number of bytes per element."""

    rows: int
    """(token, head) pairs of a program, at least; a larger group of query heads gets more."""
    tile: int
    num_warps: int
    num_stages: int
    max_registers: int | None = None
    """Of a thread; what does not fit is spilled. None leaves it to the compiler."""

    @property
    def options(self) -> dict[str, int]:
        """As Triton's launcher takes them."""
        options = {"num_warps": self.num_warps, "num_stages": self.num_stages}
        return options if self.max_registers is None else options | {"maxnreg": self.max_registers}

    def rows_of(self, group: int) -> int:
        """Rows of a program: a power of two that holds at least one token with all query heads of a
        key head.
        """
        return max(self.rows, triton.next_power_of_2(group))


# (padded head size, bytes of a number) -> how to launch. Smaller heads take the row of 64. Float32
# is for comparing tokens: it has no matrix instructions, so it needs many warps for its registers,
# and its rows were not tuned.
DECODE = {
    # Nearly all candidates reach the memory's speed; tiles of 32 are 8 to 13 % slower for heads of
    # 64.
    (64, 2): LaunchParameters(rows=MIN_DOT, tile=128, num_warps=4, num_stages=3),
    (128, 2): LaunchParameters(rows=MIN_DOT, tile=64, num_warps=2, num_stages=3),
    (256, 2): LaunchParameters(rows=MIN_DOT, tile=32, num_warps=4, num_stages=3),
    (64, 4): LaunchParameters(rows=MIN_DOT, tile=64, num_warps=8, num_stages=3),
    (128, 4): LaunchParameters(rows=MIN_DOT, tile=32, num_warps=8, num_stages=3),
    (256, 4): LaunchParameters(rows=MIN_DOT, tile=16, num_warps=8, num_stages=3),
}
PREFILL = {
    # 4 warps of 128 registers: four programs on a multiprocessor. Without the bound it takes 13 to
    # 15 % longer.
    (64, 2): LaunchParameters(rows=64, tile=64, num_warps=4, num_stages=2, max_registers=128),
    # Two programs of 8 warps. The bound spills 100 bytes a thread, and without it this takes 17 to
    # 32 % longer all the same.
    (128, 2): LaunchParameters(rows=128, tile=64, num_warps=8, num_stages=3, max_registers=128),
    # 128 rows would take 11 % less time on an H100, and would not fit the shared memory of smaller
    # GPUs (99 KiB).
    (256, 2): LaunchParameters(rows=64, tile=64, num_warps=4, num_stages=2),
    (64, 4): LaunchParameters(rows=32, tile=32, num_warps=8, num_stages=3),
    (128, 4): LaunchParameters(rows=32, tile=32, num_warps=8, num_stages=3),
    (256, 4): LaunchParameters(rows=32, tile=16, num_warps=8, num_stages=3),
}
UNIFIED = {
    # A decode in a mixed batch fills one token's rows of a tile, so tiles are smaller than those of
    # chunks alone.
    (64, 2): LaunchParameters(rows=64, tile=64, num_warps=4, num_stages=3),
    (128, 2): LaunchParameters(rows=64, tile=64, num_warps=4, num_stages=3),
    (256, 2): LaunchParameters(rows=64, tile=64, num_warps=4, num_stages=2),
    **{key: launch for key, launch in PREFILL.items() if key[1] == 4},
}
# Decodes alone in the unified kernel. Its search takes registers: 2 warps on tiles of 64 need 194
# of them, and reached 81 % of the copy speed in one report where one warp on tiles of 32 reached 97
# % in the next.
UNIFIED_DECODE = DECODE | {
    (128, 2): LaunchParameters(rows=MIN_DOT, tile=32, num_warps=1, num_stages=3)
}

# How many programs share a context (`choose_num_splits`).
PROGRAMS_PER_PROCESSOR = 4
"""As many as fit by their registers and shared memory; more would wait, and each part costs a
reduction.
"""
MIN_TOKENS_PER_SPLIT = 64
"""One tile. In a CUDA graph 512 tokens take 5.6 us in 8 parts, 6.7 in 4 and 10.8 in one."""
MAX_SPLITS = 64
"""Where 16,384 tokens gain 2 % over 32 parts, and the reduction still fits the registers."""


def decode_launch(head_size: int, dtype: torch.dtype) -> LaunchParameters:
    """For sequences with one new token each."""
    return DECODE[_key(head_size, dtype)]


def prefill_launch(head_size: int, dtype: torch.dtype) -> LaunchParameters:
    """For chunks of several tokens."""
    return PREFILL[_key(head_size, dtype)]


def unified_launch(head_size: int, dtype: torch.dtype, *, has_chunks: bool) -> LaunchParameters:
    """For batches in one launch: mixed, or of decodes alone."""
    return (UNIFIED if has_chunks else UNIFIED_DECODE)[_key(head_size, dtype)]


def _key(head_size: int, dtype: torch.dtype) -> tuple[int, int]:
    return max(64, padded_head_size(head_size)), dtype.itemsize
