"""The rungs and peers of `minivllm bench kernels`, each ready to be run on a case, and the check that comes first.

Peers of the decode rungs get what they like best: keys and values gathered beforehand for those that know no paging
(gathering is not timed), FlashInfer its own paged layout and plan. A peer that is not installed is left out, and one that
does not take a shape is named with its reason in place of a time.

The easy thing to get wrong is to time a wrong result. Every run, peers included, is compared with
`minivllm.kernels.reference` first; of a large batch its first and last sequence, since the reference goes token by token.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import torch

from minivllm.bench.kernel_cases import Batch, KernelCase
from minivllm.errors import BenchError
from minivllm.kernels import reference
from minivllm.kernels.decode_grouped import decode_grouped
from minivllm.kernels.decode_naive import decode_naive
from minivllm.kernels.decode_split import choose_num_splits, decode_split, num_processors_of
from minivllm.kernels.decode_static import StaticDecode
from minivllm.kernels.kv_write import copy_blocks, reshape_and_cache
from minivllm.kernels.prefill import list_query_tiles, prefill_attention

Run = Callable[[], torch.Tensor]
TOLERANCES = {"float32": 1e-4, "bfloat16": 2e-2, "float16": 4e-3}
"""Of the largest output, relative: rounding of the outputs, and of the products inside."""


def make_runs(case: KernelCase, batch: Batch) -> dict[str, Callable[[], Run]]:
    """Name of a kernel of ours -> what makes its run, which returns the tensor that `check` compares."""
    match case.kernel:
        case "decode":
            return _decode_rungs(case, batch)
        case "prefill":
            return {"prefill": partial(_prefill, case, batch)}
        case "kv_write":
            return {"kv_write": lambda: partial(_write, batch)}
        case _:
            # Each block is either copied from or copied to.
            return {"block_copy": lambda: partial(_copy, batch, *batch.block_tables.T.contiguous())}


def make_peers(case: KernelCase, batch: Batch) -> dict[str, Callable[[], Run]]:
    """Name of a peer -> what makes its run. Making and running may fail in any way that somebody else's code can."""
    if case.kernel != "decode":
        return {}
    key, value = batch.gathered(case.context)
    query = batch.query.unsqueeze(2)  # [batch, heads, 1, head_size]
    sdpa = torch.nn.functional.scaled_dot_product_attention
    peers: dict[str, Callable[[], Run]] = {
        "sdpa (gathered)": lambda: lambda: sdpa(query, key, value, enable_gqa=True).squeeze(2)
    }
    if batch.query.is_cuda:
        peers["FlexAttention (gathered)"] = partial(_flex_attention, query, key, value)
        if find_spec("flashinfer") is not None:
            peers["FlashInfer (paged)"] = partial(_flashinfer, case, batch)
    return peers


def check(case: KernelCase, batch: Batch, name: str, run: Run) -> None:
    """Raise `BenchError` if the result of `run` is not the reference's."""
    before = batch.caches.clone() if case.kernel in ("kv_write", "block_copy") else batch.caches
    result = run()
    expected, rows = _expected(case, batch, before)
    error = (result[rows].float() - expected.float()).abs().max() / expected.float().abs().max()
    if not error <= TOLERANCES[case.dtype]:  # NaN is an error, too
        raise BenchError(f"{name} is off the reference by {error:.1e} on {case}: no speed to report.")


def _expected(case: KernelCase, batch: Batch, before: torch.Tensor) -> tuple[torch.Tensor, list[int] | slice]:
    """The reference's result, and which rows of a run's it is."""
    scale = case.head_size**-0.5
    if case.kernel == "kv_write":
        reference.reshape_and_cache(batch.key, batch.value, *before.transpose(2, 3), batch.slots)
        return before, slice(None)
    if case.kernel == "block_copy":
        src, dst = batch.block_tables.T
        reference.copy_blocks(before, src, dst)
        return before, slice(None)
    if case.kernel == "decode":
        rows = sorted({0, case.batch - 1})
        caches, tables = _exact_contexts(batch, rows)
        return reference.decode_attention(batch.query[rows].float(), *caches, tables, batch.seq_lens[rows], scale), rows
    # The last tokens of the first chunk see all of its context.
    num_rows = min(8, case.context)
    rows = list(range(case.context - num_rows, case.context))
    caches, tables = _exact_contexts(batch, [0])
    query = batch.query[rows].float()
    return reference.paged_attention(query, *caches, tables, [0, num_rows], [case.context], scale), rows


def _exact_contexts(batch: Batch, sequences: list[int]) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Caches of these sequences' blocks alone, in float32 so that the reference does not round, and their block tables."""
    tables = batch.block_tables[sequences].long()
    caches = [cache[tables.flatten()].float() for cache in batch.key_value_views]
    return caches, torch.arange(tables.numel()).view(tables.shape)  # on the CPU, where the reference walks along it


def _decode_rungs(case: KernelCase, batch: Batch) -> dict[str, Callable[[], Run]]:
    scale, device = case.head_size**-0.5, batch.query.device
    caches = batch.key_value_views
    num_processors = num_processors_of(device)
    num_splits = choose_num_splits(case.batch, case.kv_heads, case.context, num_processors)
    arguments = (batch.query, *caches, batch.block_tables, batch.seq_lens, scale)

    def make_static() -> Run:
        static = StaticDecode(case.batch, case.context, caches[0], case.heads, scale, num_processors)
        static.set_batch(batch.block_tables, batch.seq_lens)
        return partial(static, batch.query, *caches)

    return {
        "naive": lambda: partial(decode_naive, *arguments),
        "grouped": lambda: partial(decode_grouped, *arguments),
        "split": lambda: partial(decode_split, *arguments, num_splits=num_splits),
        "static": make_static,
    }


def _flex_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Run:
    from torch.nn.attention.flex_attention import flex_attention

    # After eight shapes torch would run the ninth uncompiled, without a word that a program could see.
    torch._dynamo.reset()
    flex = torch.compile(flex_attention, dynamic=False, fullgraph=True)
    return lambda: flex(query, key, value, enable_gqa=True).squeeze(2)


def _flashinfer(case: KernelCase, batch: Batch) -> Run:
    import flashinfer

    device, width = batch.query.device, batch.block_tables.shape[1]
    workspace = torch.empty(128 << 20, dtype=torch.uint8, device=device)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "HND")
    indptr = torch.arange(0, case.batch * width + 1, width, dtype=torch.int32, device=device)
    last_page = torch.full_like(indptr[1:], case.context - (width - 1) * case.block_size)
    dtype = batch.query.dtype
    wrapper.plan(
        indptr, batch.block_tables.flatten(), last_page, case.heads, case.kv_heads, case.head_size, case.block_size,
        q_data_type=dtype, kv_data_type=dtype,
    )  # fmt: skip
    return partial(wrapper.run, batch.query, tuple(batch.caches))


def _prefill(case: KernelCase, batch: Batch) -> Run:
    device, lens = batch.query.device, [case.context] * case.batch
    starts = torch.arange(case.batch + 1, dtype=torch.int32, device=device) * case.context
    group = case.heads // case.kv_heads
    tiles = list_query_tiles(lens, list(range(case.batch)), group, case.head_size, batch.query.dtype).to(device)
    arguments = (batch.query, *batch.key_value_views, batch.block_tables, starts, batch.seq_lens)
    return partial(prefill_attention, *arguments, case.head_size**-0.5, tiles)


def _write(batch: Batch) -> torch.Tensor:
    reshape_and_cache(batch.key, batch.value, *batch.key_value_views, batch.slots)
    return batch.caches


def _copy(batch: Batch, src: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
    copy_blocks(batch.caches, src, dst)
    return batch.caches
