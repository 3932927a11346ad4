"""The kernels in Triton; those for attention are called in one way, with junk around their data.

A decode kernel takes the arguments of `reference.decode_attention`; a kernel for chunks those of
`paged_attention`. Without Triton, importing this module skips the test.
"""

from collections.abc import Callable
from functools import partial

import torch

import support.model.needs_triton  # noqa: F401
from minivllm.kernels.attention.attention_mass import attention_mass  # noqa: F401
from minivllm.kernels.attention.decode_grouped import decode_grouped
from minivllm.kernels.attention.decode_naive import decode_naive
from minivllm.kernels.attention.decode_split import SplitWorkspace, decode_split
from minivllm.kernels.attention.decode_static import StaticDecode
from minivllm.kernels.attention.prefill import list_query_tiles, prefill_attention
from minivllm.kernels.attention.unified import unified_attention
from minivllm.kernels.fused_moe import fused_experts  # noqa: F401
from minivllm.kernels.kv_write import copy_blocks, reshape_and_cache  # noqa: F401
from minivllm.kernels.norm_act import (  # noqa: F401
    add_rms_norm,
    gelu_tanh_and_mul,
    rms_norm,
    silu_and_mul,
)
from minivllm.kernels.reference import paged_attention
from minivllm.kernels.rotary import rotary_and_cache  # noqa: F401
from support.model.paged_cases import DEVICE, NO_BLOCK, PagedCase

NAN = float("nan")


def junk_workspace(query: torch.Tensor, num_splits: int) -> SplitWorkspace:
    workspace = SplitWorkspace.empty(query, num_splits)
    workspace.out.fill_(NAN)
    workspace.lse.fill_(NAN)
    return workspace


def split_in_4(query: torch.Tensor, *arguments: object, window: int = 0) -> torch.Tensor:
    workspace = junk_workspace(query, 4)
    return decode_split(query, *arguments, num_splits=4, workspace=workspace, window=window)


def static(query: torch.Tensor, *arguments: object, window: int = 0) -> torch.Tensor:
    """The version with fixed shapes, with two extra rows that hold no sequence."""
    key_cache, value_cache, block_tables, seq_lens, scale = arguments
    num_seqs, num_heads, _ = query.shape
    decode = StaticDecode(num_seqs + 2, 2048, key_cache, num_heads, scale, num_processors=16)
    decode.block_tables.fill_(NO_BLOCK)
    decode.seq_lens.fill_(10**6)
    decode.set_batch(block_tables, seq_lens)
    padded = torch.cat((query, torch.full_like(query[:2], NAN)))
    out = decode(padded, key_cache, value_cache, window)
    assert not out[num_seqs:].any(), "a row without a sequence gives zeros"
    return out[:num_seqs]


def unified_decodes(query: torch.Tensor, *arguments: object, **options: int) -> torch.Tensor:
    *cache, seq_lens, scale = arguments
    starts = torch.arange(len(query) + 1, dtype=torch.int32, device=DEVICE)
    return unified_attention(query, *cache, starts, seq_lens, scale, has_chunks=False, **options)


DECODE: dict[str, Callable[..., torch.Tensor]] = {
    "naive": decode_naive,
    "grouped": decode_grouped,
    "split": split_in_4,
    "static": static,
    "unified": partial(unified_decodes, num_splits=1),
    "unified, split": partial(unified_decodes, num_splits=4),
}


def prefill(
    query: torch.Tensor, *arguments: object, listed: list[int] | None = None, window: int = 0
):
    """The kernel for chunks, for the sequences that are `listed`: by default all of them."""
    query_lens = arguments[3].diff().tolist()
    listed = list(range(len(query_lens))) if listed is None else listed
    group = query.shape[1] // arguments[0].shape[2]
    tiles = list_query_tiles(query_lens, listed, group, query.shape[2], query.dtype)
    out = torch.full_like(query, NAN)
    return prefill_attention(query, *arguments, tiles.to(DEVICE), out, window)


def unified_chunks(
    query: torch.Tensor, *arguments: object, num_splits: int, window: int = 0
) -> torch.Tensor:
    options = {"num_splits": num_splits, "workspace": junk_workspace(query, num_splits)}
    options |= {"out": torch.full_like(query, NAN), "window": window}
    return unified_attention(query, *arguments, has_chunks=True, **options)


CHUNKS: dict[str, Callable[..., torch.Tensor]] = {
    "prefill": prefill,
    "unified": partial(unified_chunks, num_splits=1),
    "unified, split": partial(unified_chunks, num_splits=2),
}


def run_chunks(
    kernel: Callable[..., torch.Tensor], case: PagedCase, query_lens: list[int], window: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output of a kernel for chunks (NaN where unwritten) and of the reference, for a ragged batch.

    Both: [num_tokens, num_heads, head_size]
    """
    shape = case.shape
    starts = [0, *torch.tensor(query_lens).cumsum(0).tolist()]
    query = case.random(starts[-1], shape.num_heads, shape.head_size)
    expected = paged_attention(
        query, *case.exact_caches, case.block_tables, starts, case.lengths, shape.scale, window
    )
    if window:
        case.forget(
            [max(n - new + 1 - window, 0) for n, new in zip(case.lengths, query_lens, strict=True)]
        )
    actual = kernel(
        query.to(shape.dtype).to(DEVICE), *case.caches(), case.block_tables.to(DEVICE),
        torch.tensor(starts, dtype=torch.int32, device=DEVICE), case.seq_lens.to(DEVICE),
        shape.scale, window=window,
    )  # fmt: skip
    return actual, expected
