"""`CpuOps`: the C kernels as operations on tensors, with the signatures of `reference_ops`.

The kernels compute in float32; the weights and the KV cache that they read can be smaller. Only
`linear` can multiply in bfloat16.

A pointer has no shape, so a kernel cannot check its arguments. `why_unsupported` checks dtype and
head size once per engine, and each call passes the tensors' strides.
"""

import ctypes
from typing import Any

import torch

from minivllm.kernels import reference_ops
from minivllm.kernels.cpu.packed_matrix import LANES, PackedMatrix
from minivllm.text import plural

KINDS = (torch.float32, torch.bfloat16, torch.int8)
"""Dtypes of the KV cache, in the order of kv_kinds.h."""
BF16_WAYS = ("float32", "AVX512-BF16", "AMX")
"""The results of `bf16_way` in linear_bf16.c."""
MAX_HEAD_SIZE = 256


class CpuOps:
    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """See `reference_ops.rms_norm`."""
        if not _fits(x):
            return reference_ops.rms_norm(x, weight, eps)
        return self._norm(None, x, weight, eps)

    def add_rms_norm(
        self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> torch.Tensor:
        """See `reference_ops.add_rms_norm`."""
        if not (_fits(x) and _fits(residual)):
            return reference_ops.add_rms_norm(x, residual, weight, eps)
        return self._norm(x.data_ptr(), residual, weight, eps)

    def _norm(
        self, added: int | None, x: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> torch.Tensor:
        """Add the numbers at the address `added` to x, if there is one; return the norm."""
        output, size = torch.empty_like(x), x.shape[-1]
        self._library.add_rms_norm(
            added, x.data_ptr(), weight.data_ptr(), output.data_ptr(),
            x.numel() // size, size, eps, torch.get_num_threads(),
        )  # fmt: skip
        return output

    def silu_and_mul(self, x: torch.Tensor) -> torch.Tensor:
        """See `reference_ops.silu_and_mul`."""
        return self._act_and_mul(x, 0) if _fits(x) else reference_ops.silu_and_mul(x)

    def gelu_tanh_and_mul(self, x: torch.Tensor) -> torch.Tensor:
        """See `reference_ops.gelu_tanh_and_mul`."""
        return self._act_and_mul(x, 1) if _fits(x) else reference_ops.gelu_tanh_and_mul(x)

    def _act_and_mul(self, x: torch.Tensor, gelu: int) -> torch.Tensor:
        num_rows, size = x.shape[0], x.shape[1] // 2
        output = x.new_empty(num_rows, size)
        self._library.silu_and_mul(
            x.data_ptr(),
            2 * size,
            output.data_ptr(),
            num_rows,
            size,
            gelu,
            torch.get_num_threads(),
        )
        return output

    @property
    def instructions(self) -> str:
        """`AVX-512`, `AVX2` or `NEON`; empty if the processor has none of them."""
        return self._library.instructions().decode()

    @property
    def description(self) -> str:
        """How this process runs the kernels: `AVX2, 2 threads, gcc 12`."""
        threads = plural(torch.get_num_threads(), "thread")
        return f"{self.instructions}, {threads}, {self._library.compiler().decode()}"

    def linear(self, x: torch.Tensor, matrix: PackedMatrix, rounds: bool = False) -> torch.Tensor:
        """Multiply by a packed matrix. A row's result is the same, bit for bit, in any batch.

        x: [num_rows, in_features], contiguous -> [num_rows, out_features], which is a view of a
            wider tensor if the panels have padding
        rounds: whether x is rounded to bfloat16; then all parts of the matrix are bfloat16
        """
        num_rows, in_features = x.shape
        output = x.new_empty(num_rows, matrix.padded_out_features)
        needed = workspace_size(num_rows, in_features) if rounds else x.numel()
        workspace = x if num_rows == 1 and not rounds else x.new_empty(needed)
        self._library.linear(
            x.data_ptr(), matrix.parts.data_ptr(), workspace.data_ptr(), output.data_ptr(),
            len(matrix.parts), num_rows, in_features, matrix.padded_out_features, rounds,
            torch.get_num_threads(),
        )  # fmt: skip
        if matrix.out_features == matrix.padded_out_features:
            return output
        return output[:, : matrix.out_features]

    def fused_topk(
        self, x: torch.Tensor, weight: torch.Tensor, top_k: int, normalizes: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `decoder.ExpertRouter`. weight: [num_experts, hidden_size]"""
        shares = x.new_empty(len(x), top_k)
        experts = torch.empty(shares.shape, dtype=torch.int64)
        self._library.fused_topk(
            x.data_ptr(), weight.data_ptr(), shares.data_ptr(), experts.data_ptr(),
            len(x), *weight.shape, top_k, normalizes, torch.get_num_threads(),
        )  # fmt: skip
        return shares, experts

    def fused_experts(
        self, x: torch.Tensor, shares: torch.Tensor, experts: torch.Tensor, table: torch.Tensor,
        gate_up: Any,
    ) -> torch.Tensor:  # fmt: skip
        """See `decoder.Experts`. shares, experts: as `fused_topk` returns them

        table: `PackedMatrix.fields` of each expert's gate and up in one matrix, and of its down
        gate_up: the `CpuMatrix` of one expert
        """
        output, num_pairs, num_experts = torch.empty_like(x), experts.numel(), len(table)
        numbers = experts.new_empty(num_experts + 2 * num_pairs)
        hidden, wide = x.shape[1], gate_up.packed.padded_out_features
        # Every expert's rows are rounded up to whole tiles.
        num_rows = num_pairs + (LANES - 1) * min(num_pairs, num_experts)
        workspace = x.new_empty(
            num_pairs * (2 * wide + hidden + LANES) + workspace_size(num_rows, max(hidden, wide))
        )
        self._library.fused_experts(
            x.data_ptr(), table.data_ptr(), shares.data_ptr(), experts.data_ptr(),
            output.data_ptr(), numbers.data_ptr(), workspace.data_ptr(),
            *experts.shape, num_experts, gate_up.rounds, torch.get_num_threads(),
        )  # fmt: skip
        return output

    @property
    def bf16_way(self) -> str:
        """How rounded inputs are multiplied: by `AMX`, `AVX512-BF16` or `float32` instructions."""
        return BF16_WAYS[self._library.bf16_way()]

    def rows_of_packed(self, matrix: PackedMatrix, indices: torch.Tensor) -> torch.Tensor:
        """Look up rows of a matrix: indices: [num_rows] int64 -> [num_rows, in_features] float32.

        torch would use its own threads for the lookup. They would then spin for milliseconds on the
        cores that our threads need.
        """
        output = torch.empty(len(indices), matrix.in_features)
        self._library.rows_of_packed(
            matrix.parts.data_ptr(), indices.data_ptr(), output.data_ptr(),
            len(matrix.parts), len(indices), matrix.in_features, torch.get_num_threads(),
        )  # fmt: skip
        return output

    def rotary_and_cache(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cos_sin: tuple[torch.Tensor, torch.Tensor],
        cache: torch.Tensor,
        slots: torch.Tensor,
    ) -> None:
        """Rotate queries and keys *in place*, then write the cache.

        query: [num_tokens, num_heads, head_size]; key, value: [num_tokens, num_kv_heads,
            head_size]; all three can be views of one tensor if a token's heads are contiguous
        cos_sin: two tensors [num_tokens, 1, head_size] from `RotaryEmbedding.cos_sin`
        cache: [num_blocks, block_size, 2 * num_kv_heads, head_size], in float32 or bfloat16; int8:
            as in `TorchAttentionBackend`
        slots: [num_tokens] int64; a token with a negative slot is not written
        """
        self._library.rotary_and_cache(
            query.data_ptr(), key.data_ptr(), value.data_ptr(),
            query.stride(0), key.stride(0), value.stride(0),
            cos_sin[0].data_ptr(), cos_sin[1].data_ptr(), cache.data_ptr(), slots.data_ptr(),
            len(query), query.shape[1], key.shape[1], query.shape[2], KINDS.index(cache.dtype),
            torch.get_num_threads(),
        )  # fmt: skip

    def attend(
        self,
        query: torch.Tensor,
        cache: torch.Tensor,
        parts: torch.Tensor,
        level_ends: torch.Tensor,
        rows: torch.Tensor,
        block_tables: torch.Tensor,
        largest: torch.Tensor,
        total: torch.Tensor,
        output: torch.Tensor,
        num_kv_heads: int,
        scale: float,
    ) -> None:
        """Attend for all rows through their block tables, and write `output`.

        query, output: [num_rows, num_heads, head_size]
        cache: as in `rotary_and_cache`
        parts, level_ends, rows, block_tables: int64, see `AttentionWork`
        largest, total: [num_rows, num_heads] float32, workspace
        """
        self._library.attend(
            query.data_ptr(), query.stride(0), cache.data_ptr(),
            block_tables.data_ptr(), rows.data_ptr(), parts.data_ptr(), level_ends.data_ptr(),
            len(level_ends), output.data_ptr(), largest.data_ptr(), total.data_ptr(),
            num_kv_heads, query.shape[1] // num_kv_heads, query.shape[2], cache.shape[1],
            KINDS.index(cache.dtype), scale, torch.get_num_threads(),
        )  # fmt: skip

    def run_layers(
        self,
        layers: torch.Tensor,
        shape: torch.Tensor,
        eps: float,
        scale: float,
        hidden: torch.Tensor,
        cos_sin: tuple[torch.Tensor, torch.Tensor],
        slots: torch.Tensor,
        work: tuple[torch.Tensor, ...],
        workspace: torch.Tensor,
    ) -> None:
        """Run all layers of a decoder and change `hidden`: [num_rows, hidden_size] in place.

        layers, shape: int64, the structs of layers.c (`CpuLayers`)
        cos_sin, slots: as in `rotary_and_cache`
        work: the tensors of `attend`, from `parts` to `total`
        workspace: float32, [num_rows, 2 * hidden_size + wide + narrow] for the `struct space` of
            layers.c, and then the `workspace_size` of the largest product
        """
        parts, level_ends, rows, block_tables, largest, total = work
        self._library.run_layers(
            layers.data_ptr(), shape.data_ptr(), eps, scale, hidden.data_ptr(),
            cos_sin[0].data_ptr(), cos_sin[1].data_ptr(), slots.data_ptr(),
            block_tables.data_ptr(), rows.data_ptr(), parts.data_ptr(), level_ends.data_ptr(),
            len(level_ends), largest.data_ptr(), total.data_ptr(), workspace.data_ptr(),
            len(hidden), torch.get_num_threads(),
        )  # fmt: skip


def workspace_size(num_rows: int, in_features: int) -> int:
    """Numbers that any product needs for its inputs: whole tiles of AMX, 16 rows by 32 inputs."""
    return -(-num_rows // 16) * 16 * (-(-in_features // 32) * 32)


def why_unsupported(dtype: torch.dtype, head_size: int) -> str | None:
    """Return why the kernels do not support a dtype and head size; None if they do."""
    if dtype != torch.float32:
        return (
            "the CPU kernels support float32 only, and the KV cache is"
            f" {str(dtype).removeprefix('torch.')}."
        )
    if head_size % LANES or head_size > MAX_HEAD_SIZE:
        return (
            f"the CPU kernels support head sizes that are multiples of {LANES}, up to"
            f" {MAX_HEAD_SIZE}; got {head_size}."
        )
    return None


def _fits(x: torch.Tensor) -> bool:
    return x.shape[-1] % LANES == 0 and x.dtype == torch.float32 and x.is_contiguous()
