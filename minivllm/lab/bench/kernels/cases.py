"""Shapes, tensors and byte counts of the cases of `minivllm bench kernels`.

A case's bytes are the minimum that any implementation must move: each key and value of the contexts
once, the queries and the outputs. A kernel that reads keys once per query head shows a lower speed.
A cache write counts its bytes as read and as written, like a copy. Blocks are in shuffled order,
because neighbouring blocks would be read as one range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch

Kernel = Literal["decode", "prefill", "mixed", "kv_write", "block_copy"]
BATCHES = (1, 16, 64)
CONTEXTS = (512, 4096, 16384)


@dataclass(frozen=True, slots=True)
class KernelCase:
    kernel: Kernel
    batch: int  # number of sequences; `kv_write` counts tokens, and `block_copy` counts blocks
    context: int  # tokens per sequence, which a prefill computes; 0 for the last two kernels
    chunk: int = 0  # of `mixed`: the last sequence computes so many tokens; the others decode
    heads: int = 16
    kv_heads: int = 8
    head_size: int = 128
    block_size: int = 16
    dtype: str = "bfloat16"

    @property
    def query_lens(self) -> list[int]:
        """Number of tokens that each sequence computes."""
        if self.kernel == "prefill":
            return [self.context] * self.batch
        return [1] * (self.batch - 1) + [self.chunk or 1]

    @property
    def bytes_moved(self) -> int:
        """Bytes that every implementation has to read or write."""
        slots = {"kv_write": 2, "block_copy": 2 * self.block_size}.get(self.kernel, self.context)
        queries = 2 * sum(self.query_lens) * self.heads if self.context else 0
        numbers = (self.batch * slots * 2 * self.kv_heads + queries) * self.head_size
        return numbers * getattr(torch, self.dtype).itemsize


CUDA_CASES = [
    *(KernelCase("decode", batch, context) for batch in BATCHES for context in CONTEXTS),
    *(KernelCase("prefill", 1, context) for context in (512, 2048, 4096)),
    KernelCase("prefill", 16, 1024),
    *(KernelCase("mixed", 64, 4096, chunk=chunk) for chunk in (64, 512, 2048)),
    *(KernelCase("kv_write", tokens, 0) for tokens in (64, 2048, 8192)),
    *(KernelCase("block_copy", blocks, 0) for blocks in (16, 512)),
]
"""Attention of Qwen3-0.6B in bfloat16."""
TINY = {"heads": 4, "kv_heads": 2, "head_size": 16, "block_size": 8, "dtype": "float32"}
INTERPRETED_CASES = [
    KernelCase("decode", 2, 19, **TINY),
    KernelCase("prefill", 1, 19, **TINY),
    KernelCase("mixed", 3, 19, chunk=7, **TINY),
    KernelCase("kv_write", 5, 0, **TINY),
    KernelCase("block_copy", 2, 0, **TINY),
]
"""These cases only test the bench itself, because times of interpreted kernels have no meaning."""


@dataclass(slots=True)
class Batch:
    query: torch.Tensor  # [num_queries, heads, head_size]
    key: torch.Tensor  # [batch, kv_heads, head_size], for `kv_write`; so is `value`
    value: torch.Tensor
    caches: torch.Tensor  # [2, num_blocks, kv_heads, block_size, head_size]
    block_tables: torch.Tensor  # [batch, blocks per context] int32
    seq_lens: torch.Tensor  # [batch] int32
    slots: torch.Tensor  # [batch] int64, all different

    @property
    def key_value_views(self) -> torch.Tensor:
        """Both caches in the kernels' shape: [num_blocks, block_size, kv_heads, head_size]."""
        return self.caches.transpose(2, 3)

    def gathered(self, context: int) -> torch.Tensor:
        """Return keys and values without paging, [2, batch, kv_heads, context, head_size]."""
        rows = self.key_value_views[:, self.block_tables.long()].flatten(2, 3)[:, :, :context]
        return rows.transpose(2, 3).contiguous()


def make_batch(case: KernelCase, device: torch.device, seed: int = 0) -> Batch:
    generator = torch.Generator(device).manual_seed(seed)
    dtype: Any = getattr(torch, case.dtype)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=dtype)

    blocks_each = -(-case.context // case.block_size)
    blocks_each = {"kv_write": 1, "block_copy": 2}.get(case.kernel, blocks_each)
    num_blocks = case.batch * blocks_each
    order = torch.randperm(num_blocks, generator=generator, device=device)
    return Batch(
        query=random(sum(case.query_lens), case.heads, case.head_size),
        key=random(case.batch, case.kv_heads, case.head_size),
        value=random(case.batch, case.kv_heads, case.head_size),
        caches=random(2, num_blocks, case.kv_heads, case.block_size, case.head_size),
        # `kv_write` and `block_copy` have no contexts; their "table" is a list of blocks.
        block_tables=order.int().view(case.batch, -1),
        seq_lens=torch.full((case.batch,), case.context, dtype=torch.int32, device=device),
        slots=order[: case.batch] * case.block_size,
    )
