"""How attention kernels are launched: one table per kernel with tile sizes, warps and stages.

These numbers change the speed, never the result. `python tools/gpu_report tune` measures candidates
on a device and prints the entries to commit.

    rows     query rows per program. 16 are the minimum of a matrix instruction and enough for a
             decode. In a chunk, more rows share each loaded key; 128 rows of 128 numbers fill the
             registers of 8 warps.
    tile     positions loaded at once. Small tiles leave the memory idle between loads; large tiles
             leave no registers for the scores.
    warps    warps per program. Decoding waits for memory, so few warps are best: then more programs
             fit at once.
    stages   tiles being loaded while one is computed. Each takes the shared memory of a tile. Block
             ids are loaded one stage before their keys.
    registers    per thread. A multiprocessor has 65,536, so with 128 two programs of 8 warps fit:
             one multiplies while the other computes its softmax.

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
    """Minimum of (token, head) pairs per program; a larger group of query heads gets more."""
    tile: int
    num_warps: int
    num_stages: int
    max_registers: int | None = None
    """Per thread; the compiler spills the rest. None lets the compiler choose."""

    @property
    def options(self) -> dict[str, int]:
        """Options for Triton's launcher."""
        options = {"num_warps": self.num_warps, "num_stages": self.num_stages}
        return options if self.max_registers is None else options | {"maxnreg": self.max_registers}

    def rows_of(self, group: int) -> int:
        """Rows per program: a power of two with room for all query heads of a token's key head."""
        return max(self.rows, triton.next_power_of_2(group))


# (padded head size, bytes per number) -> launch parameters. Smaller heads use the row of 64.
# Float32 is for comparing tokens. It has no matrix instructions, so it needs many warps for its
# registers; its rows are not tuned.
DECODE = {
    # Nearly all candidates reach the memory's speed; for heads of 64, tiles of 32 are 8 to 13 %
    # slower.
    (64, 2): LaunchParameters(rows=MIN_DOT, tile=128, num_warps=4, num_stages=3),
    (128, 2): LaunchParameters(rows=MIN_DOT, tile=64, num_warps=2, num_stages=3),
    (256, 2): LaunchParameters(rows=MIN_DOT, tile=32, num_warps=4, num_stages=3),
    (64, 4): LaunchParameters(rows=MIN_DOT, tile=64, num_warps=8, num_stages=3),
    (128, 4): LaunchParameters(rows=MIN_DOT, tile=32, num_warps=8, num_stages=3),
    (256, 4): LaunchParameters(rows=MIN_DOT, tile=16, num_warps=8, num_stages=3),
}
PREFILL = {
    # 4 warps of 128 registers: four programs per multiprocessor. Without the limit, this takes 13
    # to 15 % longer.
    (64, 2): LaunchParameters(rows=64, tile=64, num_warps=4, num_stages=2, max_registers=128),
    # Two programs of 8 warps. The limit spills 100 bytes per thread; even so, this takes 17 to 32 %
    # longer without it.
    (128, 2): LaunchParameters(rows=128, tile=64, num_warps=8, num_stages=3, max_registers=128),
    # 128 rows take 11 % less time on an H100, but do not fit the shared memory of smaller GPUs
    # (99 KiB).
    (256, 2): LaunchParameters(rows=64, tile=64, num_warps=4, num_stages=2),
    (64, 4): LaunchParameters(rows=32, tile=32, num_warps=8, num_stages=3),
    (128, 4): LaunchParameters(rows=32, tile=32, num_warps=8, num_stages=3),
    (256, 4): LaunchParameters(rows=32, tile=16, num_warps=8, num_stages=3),
}
UNIFIED = {
    # A decode in a mixed batch fills only one token's rows of a program, so heads of 128 get fewer
    # rows than in PREFILL.
    (64, 2): LaunchParameters(rows=64, tile=64, num_warps=4, num_stages=3),
    (128, 2): LaunchParameters(rows=64, tile=64, num_warps=4, num_stages=3),
    (256, 2): LaunchParameters(rows=64, tile=64, num_warps=4, num_stages=2),
    **{key: launch for key, launch in PREFILL.items() if key[1] == 4},
}
# Decode steps in the unified kernel. Its search takes registers: 2 warps on tiles of 64 need 194 of
# them. They reached 81 % of the copy speed in one report; one warp on tiles of 32 reached 97 % in
# the next.
UNIFIED_DECODE = DECODE | {
    (128, 2): LaunchParameters(rows=MIN_DOT, tile=32, num_warps=1, num_stages=3)
}

# How many programs share a context (`choose_num_splits`).
PROGRAMS_PER_PROCESSOR = 4
"""As many as registers and shared memory allow; more would wait, and need more reductions."""
MIN_TOKENS_PER_SPLIT = 64
"""One tile. In a CUDA graph 512 tokens take 5.6 us in 8 parts, 6.7 in 4 and 10.8 in one."""
MAX_SPLITS = 64
"""For 16,384 tokens 2 % faster than 32 parts; the reduction still fits into the registers."""


def decode_launch(head_size: int, dtype: torch.dtype) -> LaunchParameters:
    """For sequences with one new token each."""
    return DECODE[_key(head_size, dtype)]


def prefill_launch(head_size: int, dtype: torch.dtype) -> LaunchParameters:
    """For chunks of several tokens."""
    return PREFILL[_key(head_size, dtype)]


def unified_launch(head_size: int, dtype: torch.dtype, *, has_chunks: bool) -> LaunchParameters:
    """For batches in one launch: mixed, or only decodes."""
    return (UNIFIED if has_chunks else UNIFIED_DECODE)[_key(head_size, dtype)]


def _key(head_size: int, dtype: torch.dtype) -> tuple[int, int]:
    return max(64, padded_head_size(head_size)), dtype.itemsize
