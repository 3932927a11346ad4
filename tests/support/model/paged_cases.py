"""Random paged-attention problems in which a forbidden read changes the result.

Slots without a token hold NaN, unused block-table entries are far outside the cache, and tables are
shuffled. Values are exact in float32, bfloat16 and float16, so rounding starts with the kernel.
Each run draws a new seed; a failure prints it.
"""

import math
import os
import random
from dataclasses import dataclass

import pytest
import torch

from minivllm.kernels.reference import decode_attention
from support.model.needs import INTERPRETED

DEVICE = torch.device("cpu" if INTERPRETED else "cuda")
NO_BLOCK = 2**31 - 1  # unused block-table entries: a read through one crashes the test

# Largest relative error. Triton's interpreter truncates to bfloat16.
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}


@pytest.fixture(name="seed")
def new_seed(request: pytest.FixtureRequest) -> int:
    """A new seed in each run, printed on failure. MINIVLLM_SEED repeats it."""
    value = int(os.environ.get("MINIVLLM_SEED", random.SystemRandom().randrange(2**31)))
    print(f"repeat with MINIVLLM_SEED={value}")
    return value


@dataclass(frozen=True)
class Shape:
    head_size: int = 64
    group: int = 1
    block_size: int = 16
    dtype: torch.dtype = torch.float32
    num_kv_heads: int = 2

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"head{self.head_size}-group{self.group}-block{self.block_size}-{dtype}"

    @property
    def num_heads(self) -> int:
        return self.num_kv_heads * self.group

    @property
    def scale(self) -> float:
        return 1.0 / math.sqrt(self.head_size)


_F32, _BF16, _F16 = torch.float32, torch.bfloat16, torch.float16
FOUR_SHAPES = [
    Shape(80, 1, 32, _BF16, 2), Shape(64, 4, 16, _F16, 2),
    Shape(96, 3, 8, _F32, 1), Shape(128, 7, 8, _BF16, 1),
]  # fmt: skip
# With the four, every head size, group, block size and dtype, and most pairs: 15 shapes
# instead of 300.
OTHER_SHAPES = [
    Shape(64, 7, 128, _F32, 1), Shape(96, 8, 32, _F16, 1), Shape(128, 3, 16, _F32, 2),
    Shape(256, 1, 16, _BF16, 3), Shape(80, 8, 16, _F32, 1), Shape(96, 4, 128, _BF16, 1),
    Shape(128, 1, 128, _F16, 2), Shape(256, 4, 32, _F32, 1), Shape(64, 8, 8, _BF16, 1),
    Shape(80, 3, 32, _F16, 2), Shape(256, 7, 8, _F16, 1),
]  # fmt: skip


class PagedCase:
    """A cache with some sequences, in float64 (for the reference) and in the dtype under test."""

    def __init__(self, shape: Shape, seq_lens: list[int], seed: int) -> None:
        self.shape = shape
        self.generator = torch.Generator().manual_seed(seed)
        self.lengths = seq_lens
        size = shape.block_size
        self.num_blocks = sum(-(-length // size) for length in seq_lens) + 3
        free = torch.randperm(self.num_blocks, generator=self.generator).tolist()
        width = max(-(-length // size) for length in seq_lens) + 2
        self.block_tables = torch.full((len(seq_lens), width), NO_BLOCK, dtype=torch.int32)
        cache_shape = (2, self.num_blocks, size, shape.num_kv_heads, shape.head_size)
        # Keys, then values.
        self.exact_caches = torch.full(cache_shape, float("nan"), dtype=torch.float64)
        for i, length in enumerate(seq_lens):
            blocks = [free.pop() for _ in range(-(-length // size))]
            self.block_tables[i, : len(blocks)] = torch.tensor(blocks, dtype=torch.int32)
            slots = self.slots(i)
            self.exact_caches.flatten(1, 2)[:, slots] = self.random(2, length, *cache_shape[3:])
        self.seq_lens = torch.tensor(seq_lens, dtype=torch.int32)

    def random(self, *shape: int) -> torch.Tensor:
        numbers = torch.randn(*shape, generator=self.generator).clamp(-4, 4)
        return numbers.bfloat16().double()

    def slots(self, i: int) -> torch.Tensor:
        """Slots of the tokens of sequence i: [length]."""
        positions = torch.arange(self.lengths[i])
        size = self.shape.block_size
        return self.block_tables[i].long()[positions // size] * size + positions % size

    def caches(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values in the dtype and on the device under test."""
        keys, values = self.exact_caches.to(self.shape.dtype).to(DEVICE)
        return keys, values

    def forget(self, first_seen: list[int]) -> None:
        """Make tokens before this position of each sequence NaN, and their whole blocks invalid."""
        for i, first in enumerate(first_seen):
            self.exact_caches.flatten(1, 2)[:, self.slots(i)[:first]] = float("nan")
            self.block_tables[i, : first // self.shape.block_size] = NO_BLOCK

    def decode_query(self) -> torch.Tensor:
        """[num_seqs, num_heads, head_size] in float64; rows of length 0 are NaN."""
        query = self.random(len(self.lengths), self.shape.num_heads, self.shape.head_size)
        query[self.seq_lens == 0] = float("nan")
        return query

    def decode_arguments(self, query: torch.Tensor) -> tuple:
        return (
            query.to(self.shape.dtype).to(DEVICE), *self.caches(), self.block_tables.to(DEVICE),
            self.seq_lens.to(DEVICE), self.shape.scale,
        )  # fmt: skip

    def decode_expected(self, query: torch.Tensor, window: int = 0) -> torch.Tensor:
        return decode_attention(
            query, *self.exact_caches, self.block_tables, self.seq_lens, self.shape.scale, window
        )


def assert_close(
    actual: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype, tolerance: float | None = None
) -> None:
    """Bound the largest error relative to the largest number of the result."""
    actual, expected = actual.detach().cpu().double(), expected.double()
    assert actual.shape == expected.shape
    assert not actual.isnan().any(), "the kernel read what it must not read"
    error = (actual - expected).abs().max() / expected.abs().max()
    assert error < (tolerance or TOLERANCE[dtype]), f"relative error {error:.2e}"
