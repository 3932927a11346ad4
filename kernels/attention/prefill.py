"""Prefill attention: causal attention of ragged chunks, each over its whole paged context.

All keys and values of a step are written before any are read. So a query at position p reads
positions 0 to p from the cache in one loop, whether they are before the chunk or in it.

A program takes a *query tile*: neighbouring tokens of one sequence, each with all query heads that
share one key head. As in version 2 of decode, a loaded key serves the whole group. The host lists
the tiles, so no program searches for its sequence, and no program is idle.

A tile's loop must end at the tile's *last* token. A loop to the end of the sequence would double
the work for a long prompt, and no test of results would detect that.

Source: vLLM `triton_unified_attention.py` (Q blocks); FlashAttention-2 (Dao, 2023).
"""

import torch

from minivllm.kernels.attention.online_softmax import (
    LOG2_E,
    attend_rows,
    padded_head_size,
    wide_enough,
)
from minivllm.kernels.launch_table import prefill_launch
from minivllm.kernels.mode import tl, triton


def list_query_tiles(
    query_lens: list[int], sequences: list[int], group: int, head_size: int, dtype: torch.dtype
) -> torch.Tensor:
    """List the query tiles: [num_tiles, 2] int32, (sequence, first token within its chunk).

    query_lens: number of tokens of every sequence of the batch
    sequences: indices of the sequences to list
    """
    tokens = prefill_launch(head_size, dtype).rows_of(group) // group
    # The last tiles of a chunk read the most keys. Start them first; short tiles fill the gaps.
    tiles = [(i, first) for i in sequences for first in reversed(range(0, query_lens[i], tokens))]
    return torch.tensor(tiles, dtype=torch.int32).reshape(-1, 2)


# Block tables have many widths; one compilation serves all of them.
@triton.jit(do_not_specialize=["table_stride"])
def prefill_kernel(
    query,  # [num_tokens, num_heads, HEAD_SIZE], and `out` like it
    out,
    key_cache,  # [num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_SIZE], and `value_cache` like it
    value_cache,
    block_tables,  # [num_seqs, max_blocks]
    query_start_loc,  # [num_seqs + 1]
    seq_lens,  # [num_seqs]
    tiles,  # [num_tiles, 2]
    scale,
    query_stride_token,
    query_stride_head,
    out_stride_token,
    out_stride_head,
    stride_block,
    stride_slot,
    stride_head,
    table_stride,
    GROUP: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_SIZE_PADDED: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    WINDOW: tl.constexpr,
):
    """Program (query tile, key head)."""
    seq = tl.load(tiles + tl.program_id(0) * 2).to(tl.int64)
    first_token = tl.load(tiles + tl.program_id(0) * 2 + 1)
    kv_head = tl.program_id(1)
    chunk_start = tl.load(query_start_loc + seq).to(tl.int64)
    chunk_len = (tl.load(query_start_loc + seq + 1) - chunk_start).to(tl.int32)
    num_computed = tl.load(seq_lens + seq) - chunk_len

    # Row r is token r // GROUP of the tile and head r % GROUP of the group.
    rows, dims = tl.arange(0, ROWS), tl.arange(0, HEAD_SIZE_PADDED)
    tokens = first_token + rows // GROUP
    is_row = (rows < ROWS // GROUP * GROUP) & (tokens < chunk_len)
    heads = kv_head * GROUP + rows % GROUP
    mask = is_row[:, None] & (dims[None, :] < HEAD_SIZE)
    query_rows = (chunk_start + tokens) * query_stride_token + heads * query_stride_head
    q = tl.load(query + query_rows[:, None] + dims[None, :], mask=mask, other=0.0)

    first_row = num_computed + first_token
    last_row = num_computed + tl.minimum(first_token + ROWS // GROUP, chunk_len) - 1
    acc, _, running_sum = attend_rows(
        q,
        num_computed + tokens,
        tl.maximum(first_row + 1 - WINDOW, 0) if WINDOW > 0 else 0,
        tl.maximum(last_row + 1 - WINDOW, 0) if WINDOW > 0 else 0,
        first_row + 1,
        last_row + 1,
        scale,
        key_cache,
        value_cache,
        block_tables + seq * table_stride,
        kv_head,
        stride_block,
        stride_slot,
        stride_head,
        BLOCK_SIZE,
        HEAD_SIZE,
        HEAD_SIZE_PADDED,
        ROWS,
        TILE,
        WINDOW,
    )
    if WINDOW > 0:  # a row past the chunk's end may see nothing
        running_sum = tl.where(running_sum > 0.0, running_sum, 1.0)
    acc = acc / running_sum[:, None]
    out_rows = (chunk_start + tokens) * out_stride_token + heads * out_stride_head
    tl.store(out + out_rows[:, None] + dims[None, :], acc.to(out.dtype.element_ty), mask=mask)


def prefill_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    tiles: torch.Tensor,
    out: torch.Tensor | None = None,
    window: int = 0,
) -> torch.Tensor:
    """Compute `minivllm.kernels.reference.paged_attention` for the sequences in `tiles`.

    query: [num_tokens, num_heads, head_size]; block_tables: [num_seqs, max_blocks]
    query_start_loc: [num_seqs + 1] and seq_lens: [num_seqs], on the device
    tiles: [num_tiles, 2] on the device, from `list_query_tiles`; rows of `out` that are in no tile
        stay unchanged
    """
    num_kv_heads, head_size = key_cache.shape[2], query.shape[2]
    group = query.shape[1] // num_kv_heads
    launch = prefill_launch(head_size, query.dtype)
    out = torch.empty_like(query) if out is None else out
    block_tables = wide_enough(block_tables, key_cache)
    prefill_kernel[(len(tiles), num_kv_heads)](
        query,
        out,
        key_cache,
        value_cache,
        block_tables,
        query_start_loc,
        seq_lens,
        tiles,
        scale * LOG2_E,
        *query.stride()[:2],
        *out.stride()[:2],
        *key_cache.stride()[:3],
        block_tables.stride(0),
        GROUP=group,
        BLOCK_SIZE=key_cache.shape[1],
        HEAD_SIZE=head_size,
        HEAD_SIZE_PADDED=padded_head_size(head_size),
        ROWS=launch.rows_of(group),
        TILE=launch.tile,
        WINDOW=window,
        **launch.options,
    )
    return out
