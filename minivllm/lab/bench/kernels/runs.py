"""Our kernels and torch's as `minivllm bench kernels` runs them.

The kernels' tests compare them with `minivllm.kernels.reference`, which is too slow for these
shapes. Here all implementations of a case must have the same result. Torch's gets gathered keys and
values, and gathering is not timed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.nn.functional import scaled_dot_product_attention

from minivllm.errors import BenchError
from minivllm.kernels.attention import decode_split as split
from minivllm.kernels.attention.decode_grouped import decode_grouped
from minivllm.kernels.attention.decode_naive import decode_naive
from minivllm.kernels.attention.decode_static import StaticDecode
from minivllm.kernels.attention.prefill import list_query_tiles, prefill_attention
from minivllm.kernels.attention.unified import unified_attention
from minivllm.kernels.kv_write import copy_blocks, reshape_and_cache
from minivllm.lab.bench.kernels.cases import Batch, KernelCase

PEER = "sdpa (gathered)"
Run = Callable[[], torch.Tensor | None]  # runs a kernel once, and returns the output of attention
TOLERANCES = {"float32": 1e-4, "bfloat16": 2e-2, "float16": 4e-3}
"""Largest allowed error, relative to the largest output: rounding in the dtype."""


def make_runs(case: KernelCase, batch: Batch) -> dict[str, Callable[[], Run]]:
    """Return for each kernel's name, and for `PEER`, a function that makes its `Run`."""
    unified, peer = partial(_unified, case, batch), partial(_sdpa, case, batch)
    match case.kernel:
        case "decode":
            return {**_decode_versions(case, batch), "unified": unified, PEER: peer}
        case "prefill":
            arguments = _prefill_arguments(case, batch, list(range(case.batch)))
            prefill = partial(prefill_attention, *arguments)
            return {"prefill": lambda: prefill, "unified": unified, PEER: peer}
        case "mixed":
            return {"decode + prefill": partial(_mixed, case, batch), "unified": unified}
        case "kv_write":
            arguments = (batch.key, batch.value, *batch.key_value_views, batch.slots)
            return {"kv_write": lambda: partial(reshape_and_cache, *arguments)}
        case _:
            # The columns of the table are source and destination; no block is in both columns.
            arguments = (batch.caches, *batch.block_tables.T.contiguous())
            return {"block_copy": lambda: partial(copy_blocks, *arguments)}


def check_same(case: KernelCase, name: str, result: torch.Tensor, first: torch.Tensor) -> None:
    """Raise `BenchError` if two implementations of a case differ."""
    error = (result.float() - first.float()).abs().max() / first.float().abs().max()
    if not error <= TOLERANCES[case.dtype]:  # NaN is an error too
        raise BenchError(
            f"{name} differs from the first result by {error:.1e} on {case}: its speed is left out."
        )


def _num_splits(case: KernelCase, batch: Batch, num_decodes: int) -> int:
    processors = split.num_processors_of(batch.query.device)
    return split.choose_num_splits(num_decodes, case.kv_heads, case.context, processors)


def _decode_versions(case: KernelCase, batch: Batch) -> dict[str, Callable[[], Run]]:
    scale, caches = case.head_size**-0.5, batch.key_value_views
    num_splits = _num_splits(case, batch, case.batch)
    arguments = (batch.query, *caches, batch.block_tables, batch.seq_lens, scale)

    def make_static() -> Run:
        processors = split.num_processors_of(batch.query.device)
        static = StaticDecode(case.batch, case.context, caches[0], case.heads, scale, processors)
        static.set_batch(batch.block_tables, batch.seq_lens)
        return partial(static, batch.query, *caches)

    return {
        "naive": lambda: partial(decode_naive, *arguments),
        "grouped": lambda: partial(decode_grouped, *arguments),
        "split": lambda: partial(split.decode_split, *arguments, num_splits=num_splits),
        "static": make_static,
    }


def _mixed(case: KernelCase, batch: Batch) -> Run:
    """Let prefill and decode kernels write into one output, as in a mixed step of the engine."""
    num_decodes, scale = case.batch - 1, case.head_size**-0.5
    num_splits = _num_splits(case, batch, num_decodes)
    output = torch.empty_like(batch.query)
    decodes = (
        batch.query[:num_decodes], *batch.key_value_views, batch.block_tables[:num_decodes],
        batch.seq_lens[:num_decodes],
    )  # fmt: skip
    prefills = _prefill_arguments(case, batch, [num_decodes])

    def run() -> torch.Tensor:
        prefill_attention(*prefills, output)
        split.decode_split(*decodes, scale, num_splits=num_splits, out=output[:num_decodes])
        return output

    return run


def _unified(case: KernelCase, batch: Batch) -> Run:
    """Compute all sequences in one launch. Without a chunk, contexts are split as in `split`."""
    has_chunks = max(case.query_lens) > 1
    num_splits = 1 if has_chunks else _num_splits(case, batch, case.batch)
    arguments = _arguments(case, batch)
    return partial(unified_attention, *arguments, has_chunks=has_chunks, num_splits=num_splits)


def _arguments(case: KernelCase, batch: Batch) -> tuple:
    starts = torch.tensor([0, *case.query_lens]).cumsum(0).int().to(batch.query.device)
    caches, scale = batch.key_value_views, case.head_size**-0.5
    return batch.query, *caches, batch.block_tables, starts, batch.seq_lens, scale


def _prefill_arguments(case: KernelCase, batch: Batch, sequences: list[int]) -> tuple:
    group, dtype = case.heads // case.kv_heads, batch.query.dtype
    tiles = list_query_tiles(case.query_lens, sequences, group, case.head_size, dtype)
    return *_arguments(case, batch), tiles.to(batch.query.device)


def _sdpa(case: KernelCase, batch: Batch) -> Run:
    key, value = batch.gathered(case.context)
    if case.kernel == "decode":
        query = batch.query.unsqueeze(2)  # [batch, heads, 1, head_size]
        return lambda: scaled_dot_product_attention(query, key, value, enable_gqa=True).squeeze(2)
    query = batch.query.view(case.batch, case.context, case.heads, case.head_size).transpose(1, 2)

    def run() -> torch.Tensor:
        # [batch, heads, context, head_size]; for a single sequence, `flatten` is free.
        output = scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return output.transpose(1, 2).flatten(0, 1)

    return run
