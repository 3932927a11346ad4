"""Peers for `minivllm bench kernels`: torch's attention in several forms, and FlashInfer.

Each peer gets the data layout that suits it best, and preparing the data is not timed. A peer
without paging gets gathered keys and values; FlexAttention gets pages of 128 tokens. A peer that is
not installed is left out. If a peer cannot run a shape, the report states the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from random import Random

import torch

from minivllm.lab.bench.kernels.cases import Batch, KernelCase
from minivllm.lab.bench.kernels.runs import Run

PAGE_SIZE = 128
"""Tokens per page of FlexAttention: the default block size of FlexAttention's block masks."""


def make_peers(case: KernelCase, batch: Batch) -> dict[str, Callable[[], Run]]:
    """Map each peer's name to a function that makes its `Run`.

    The function and its `Run` may raise any exception.
    """
    match case.kernel:
        case "decode":
            return _decode_peers(case, batch)
        case "prefill":
            return _prefill_peers(case, batch)
        case _:
            return {}


def _decode_peers(case: KernelCase, batch: Batch) -> dict[str, Callable[[], Run]]:
    peers: dict[str, Callable[[], Run]] = {"sdpa (gathered)": partial(_sdpa_decode, case, batch)}
    if batch.query.is_cuda:
        peers["FlexAttention (gathered)"] = partial(_flex_attention, case, batch)
        peers["FlexAttention (paged)"] = partial(_flex_attention_paged, case, batch)
        if find_spec("flashinfer") is not None:
            peers["FlashInfer (paged)"] = partial(_flashinfer, case, batch)
    return peers


def _prefill_peers(case: KernelCase, batch: Batch) -> dict[str, Callable[[], Run]]:
    peers: dict[str, Callable[[], Run]] = {
        "sdpa (gathered)": partial(_sdpa_prefill, case, batch, None)
    }
    if batch.query.is_cuda:
        from torch.nn.attention import SDPBackend

        peers["sdpa flash (gathered)"] = partial(
            _sdpa_prefill, case, batch, SDPBackend.FLASH_ATTENTION
        )
        peers["sdpa cuDNN (gathered)"] = partial(
            _sdpa_prefill, case, batch, SDPBackend.CUDNN_ATTENTION
        )
    return peers


def _sdpa_decode(case: KernelCase, batch: Batch) -> Run:
    key, value = batch.gathered(case.context)
    query = batch.query.unsqueeze(2)  # [batch, heads, 1, head_size]
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return lambda: sdpa(query, key, value, enable_gqa=True).squeeze(2)


def _sdpa_prefill(case: KernelCase, batch: Batch, backend: object | None) -> Run:
    """backend: one of `torch.nn.attention.SDPBackend`; None lets torch choose"""
    from torch.nn.attention import sdpa_kernel

    key, value = batch.gathered(case.context)
    query = batch.query.view(case.batch, case.context, case.heads, case.head_size).transpose(1, 2)
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def run() -> torch.Tensor:
        # sdpa returns [batch, heads, context, head_size]; for a single sequence, `flatten` is free.
        return (
            sdpa(query, key, value, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(0, 1)
        )

    def run_by_name() -> torch.Tensor:
        with sdpa_kernel(backend):
            return run()

    return run if backend is None else run_by_name


def _compiled_flex_attention() -> Callable[..., torch.Tensor]:
    from torch.nn.attention.flex_attention import flex_attention

    # Reset, because with `fullgraph` torch raises after compiling eight shapes.
    torch._dynamo.reset()
    return torch.compile(flex_attention, dynamic=False, fullgraph=True)


def _flex_attention(case: KernelCase, batch: Batch) -> Run:
    key, value = batch.gathered(case.context)
    query = batch.query.unsqueeze(2)
    flex = _compiled_flex_attention()
    return lambda: flex(query, key, value, enable_gqa=True).squeeze(2)


def _flex_attention_paged(case: KernelCase, batch: Batch) -> Run:
    """Prepare torch's own paged attention, over pages in a shuffled order.

    Source: `torch.nn.attention.experimental._paged_attention`, torch 2.11 and 2.13.
    """
    from torch.nn.attention.experimental._paged_attention import PagedAttention
    from torch.nn.attention.flex_attention import create_block_mask

    device, pages_each = batch.query.device, -(-case.context // PAGE_SIZE)
    paged = PagedAttention(case.batch * pages_each, PAGE_SIZE, case.batch, device=str(device))
    Random(0).shuffle(paged.empty_pages)
    for sequence in range(case.batch):
        paged.reserve(
            torch.tensor(sequence, device=device), torch.tensor(case.context, device=device)
        )
    # One row with the pages of all sequences: [1, kv_heads, num_pages * PAGE_SIZE, head_size]
    shape = (1, case.kv_heads, case.batch * pages_each * PAGE_SIZE, case.head_size)
    caches = [torch.zeros(shape, dtype=batch.query.dtype, device=device) for _ in range(2)]
    sequences = torch.arange(case.batch, device=device)
    positions = torch.arange(case.context, device=device).expand(case.batch, -1)
    paged.assign(sequences, positions, *batch.gathered(case.context), *caches)

    def is_in_context(
        b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, kv: torch.Tensor
    ) -> torch.Tensor:
        return kv < case.context

    logical = create_block_mask(
        is_in_context,
        case.batch,
        None,
        1,
        pages_each * PAGE_SIZE,
        device=str(device),
        BLOCK_SIZE=PAGE_SIZE,
    )
    mask = paged.convert_logical_block_mask(logical, kv_len=batch.seq_lens)
    query = batch.query.unsqueeze(2)
    flex = _compiled_flex_attention()
    return lambda: flex(query, *caches, block_mask=mask, enable_gqa=True).squeeze(2)


def _flashinfer(case: KernelCase, batch: Batch) -> Run:
    import flashinfer

    device, width = batch.query.device, batch.block_tables.shape[1]
    workspace = torch.empty(128 << 20, dtype=torch.uint8, device=device)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "HND")
    indptr = torch.arange(0, case.batch * width + 1, width, dtype=torch.int32, device=device)
    last_page = torch.full_like(indptr[1:], case.context - (width - 1) * case.block_size)
    dtype = batch.query.dtype
    wrapper.plan(
        indptr, batch.block_tables.flatten(), last_page, case.heads, case.kv_heads, case.head_size,
        case.block_size, q_data_type=dtype, kv_data_type=dtype,
    )  # fmt: skip
    return partial(wrapper.run, batch.query, tuple(batch.caches))
