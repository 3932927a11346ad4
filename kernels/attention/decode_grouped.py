"""Decode attention, kernel version 2: one program for all query heads that share a key head.

With grouped-query attention, `group` query heads read the same keys. One program for all these
heads loads each key once. The scores of a tile are then one small matrix product, [rows, head_size]
x [head_size, tile], for the matrix units. `tl.dot` needs at least 16 rows, so a smaller group is
padded with rows of zeros, which are never stored. Padding costs little, because decoding is
memory-bandwidth-bound.

One problem remains: a program still reads a whole context, so a single sequence of 100,000 tokens
keeps `num_kv_heads` programs busy and leaves the rest of the GPU idle. Version 3 fixes this.

Source: "GQA" (Ainslie et al., 2023); vLLM `triton_unified_attention.py`.
"""

import torch

from minivllm.kernels.attention.online_softmax import (
    LOG2_E,
    attend_rows,
    padded_head_size,
    wide_enough,
)
from minivllm.kernels.launch_table import decode_launch
from minivllm.kernels.mode import tl, triton


@triton.jit
def load_group(
    query,  # [num_seqs, num_heads, HEAD_SIZE]
    seq,
    kv_head,
    stride_seq,
    stride_head,
    GROUP: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_SIZE_PADDED: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Load the queries of one key head's group: [ROWS, HEAD_SIZE_PADDED], padded with zeros."""
    rows, dims = tl.arange(0, ROWS), tl.arange(0, HEAD_SIZE_PADDED)
    pointers = (
        query + seq * stride_seq + (kv_head * GROUP + rows[:, None]) * stride_head + dims[None, :]
    )
    return tl.load(pointers, mask=(rows[:, None] < GROUP) & (dims[None, :] < HEAD_SIZE), other=0.0)


# Block tables have many widths; one compilation serves all of them.
@triton.jit(do_not_specialize=["table_stride"])
def decode_grouped_kernel(
    query,  # [num_seqs, num_heads, HEAD_SIZE], and `out` like it
    out,
    key_cache,  # [num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_SIZE], and `value_cache` like it
    value_cache,
    block_tables,  # [num_seqs, max_blocks]
    seq_lens,  # [num_seqs]
    scale,
    query_stride_seq,
    query_stride_head,
    out_stride_seq,
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
    """Program (sequence, key head)."""
    seq, kv_head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    seq_len = tl.load(seq_lens + seq)
    acc = tl.zeros([ROWS, HEAD_SIZE_PADDED], tl.float32)
    if seq_len > 0:  # for a padded row, do not even read the query
        q = load_group(
            query,
            seq,
            kv_head,
            query_stride_seq,
            query_stride_head,
            GROUP,
            HEAD_SIZE,
            HEAD_SIZE_PADDED,
            ROWS,
        )
        # With a window, the context starts later, and all rows see the same part of it.
        first = tl.maximum(seq_len - WINDOW, 0) if WINDOW > 0 else 0
        acc, _, running_sum = attend_rows(
            q,
            tl.full([ROWS], 0, tl.int32) + (seq_len - 1),
            first,
            first,
            seq_len,
            seq_len,
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
            0,
        )
        acc = acc / running_sum[:, None]
    rows, dims = tl.arange(0, ROWS), tl.arange(0, HEAD_SIZE_PADDED)
    pointers = (
        out
        + seq * out_stride_seq
        + (kv_head * GROUP + rows[:, None]) * out_stride_head
        + dims[None, :]
    )
    tl.store(
        pointers,
        acc.to(out.dtype.element_ty),
        mask=(rows[:, None] < GROUP) & (dims[None, :] < HEAD_SIZE),
    )


def decode_grouped(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    out: torch.Tensor | None = None,
    window: int = 0,
) -> torch.Tensor:
    """See `minivllm.kernels.reference.decode_attention`. Writes and returns `out` if given."""
    num_seqs, num_heads, head_size = query.shape
    num_kv_heads = key_cache.shape[2]
    group = num_heads // num_kv_heads
    launch = decode_launch(head_size, query.dtype)
    out = torch.empty_like(query) if out is None else out
    block_tables = wide_enough(block_tables, key_cache)
    decode_grouped_kernel[(num_seqs, num_kv_heads)](
        query,
        out,
        key_cache,
        value_cache,
        block_tables,
        seq_lens,
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
