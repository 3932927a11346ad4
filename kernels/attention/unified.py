"""Unified attention, kernel version 5: prefill chunks, decodes and mixed batches in one launch.

A decode is a chunk of one token, so one kernel can serve every sequence of a step. Chunks and
decodes do not wait for each other, and the host neither sorts the batch nor lists query tiles.

Instead, each program finds its sequence by binary search. Sequence s owns a range of tile numbers
that starts at `query_start_loc[s] // TOKENS + s`. The "+ s" leaves room for partly filled tiles, so
that ranges never overlap. With 2 tokens per tile:

    query_start_loc   0, 5, 6, 8        sequences of 5, 1 and 2 tokens
    tiles start at    0, 3, 5           sequence 0: tiles 0 1 2, sequence 1: tile 3 (4 is idle),
                                        sequence 2: tile 5
    grid              8 // 2 + 3 = 7    idle programs (4, 6) end at once

With NUM_SPLITS above 1, several programs share each tile's context, and a second kernel merges
their parts, as in `decode_split`.

Source: vLLM `vllm/v1/attention/ops/triton_unified_attention.py` (`kernel_unified_attention`,
`find_seq_idx`, `reduce_segments`).
"""

import torch

from minivllm.kernels.attention.decode_split import SplitWorkspace, reduce_warps, tiles_per_split
from minivllm.kernels.attention.online_softmax import (
    LOG2_E,
    attend_rows,
    padded_head_size,
    wide_enough,
)
from minivllm.kernels.launch_table import unified_launch
from minivllm.kernels.mode import tl, triton


@triton.jit
def find_sequence(query_start_loc, num_seqs, number, TOKENS: tl.constexpr):
    """Return the sequence that owns tile `number`: the last one that starts at or before it.

    TOKENS: tokens per tile
    """
    left: tl.int32 = 0
    right: tl.int32 = num_seqs
    while left < right:
        middle = (left + right) // 2
        if tl.load(query_start_loc + middle) // TOKENS + middle <= number:
            left = middle + 1
        else:
            right = middle
    return left - 1


# Block tables have many widths, and batches many sizes; one compilation serves all of them.
@triton.jit(do_not_specialize=["table_stride", "num_seqs"])
def unified_kernel(
    query,  # [num_tokens, num_heads, HEAD_SIZE], and `out` like it
    # with splits: [num_tokens, num_heads, NUM_SPLITS, HEAD_SIZE] float32, contiguous
    out,
    # [num_tokens, num_heads, NUM_SPLITS] float32, contiguous; unused without splits
    part_lse,
    key_cache,  # [num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_SIZE], and `value_cache` like it
    value_cache,
    block_tables,  # [num_seqs, max_blocks]
    query_start_loc,  # [num_seqs + 1]
    seq_lens,  # [num_seqs]
    num_seqs,
    scale,
    query_stride_token,
    query_stride_head,
    out_stride_token,
    out_stride_head,
    stride_block,
    stride_slot,
    stride_head,
    table_stride,
    NUM_SPLITS: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_SIZE_PADDED: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    WINDOW: tl.constexpr,
):
    """Program (query tile, key head, split)."""
    tile_tokens: tl.constexpr = ROWS // GROUP
    # Count backwards: the last tiles of a chunk read the most keys, so start them first. Short
    # tiles then fill the gaps.
    number = tl.num_programs(0) - 1 - tl.program_id(0)
    seq = find_sequence(query_start_loc, num_seqs, number, tile_tokens)
    kv_head, split = tl.program_id(1), tl.program_id(2)
    chunk_start = tl.load(query_start_loc + seq)
    chunk_len = tl.load(query_start_loc + seq + 1) - chunk_start
    first_token = (number - (chunk_start // tile_tokens + seq)) * tile_tokens
    # Otherwise the tile is idle: a sequence's range can have one tile more than it needs.
    if first_token < chunk_len:
        num_computed = tl.load(seq_lens + seq) - chunk_len
        # Row r is token r // GROUP of the tile and head r % GROUP of the group.
        rows, dims = tl.arange(0, ROWS), tl.arange(0, HEAD_SIZE_PADDED)
        tokens = first_token + rows // GROUP
        is_row = (rows < tile_tokens * GROUP) & (tokens < chunk_len)
        heads = kv_head * GROUP + rows % GROUP
        flat_tokens = (chunk_start + tokens).to(tl.int64)
        # one past the tile's last token
        end = num_computed + tl.minimum(first_token + tile_tokens, chunk_len)
        # The window of the tile's first row starts at `begin`, that of its last row at `seen_from`.
        begin = tl.maximum(num_computed + first_token + 1 - WINDOW, 0) if WINDOW > 0 else 0
        seen_from = tl.maximum(end - WINDOW, 0) if WINDOW > 0 else 0
        num_positions = tiles_per_split(end - begin, NUM_SPLITS, TILE) * TILE
        first = begin + split * num_positions
        end = tl.minimum(first + num_positions, end)
        acc = tl.zeros([ROWS, HEAD_SIZE_PADDED], tl.float32)
        running_max = tl.zeros([ROWS], tl.float32)
        running_sum = tl.zeros([ROWS], tl.float32)
        mask = is_row[:, None] & (dims[None, :] < HEAD_SIZE)
        # A padded row of a CUDA graph has length 0: read neither its query nor its block table.
        if first < end:
            query_rows = flat_tokens * query_stride_token + heads * query_stride_head
            q = tl.load(query + query_rows[:, None] + dims[None, :], mask=mask, other=0.0)
            acc, running_max, running_sum = attend_rows(
                q,
                num_computed + tokens,
                first,
                seen_from,
                tl.minimum(num_computed + first_token + 1, end),
                end,
                scale,
                key_cache,
                value_cache,
                block_tables + seq.to(tl.int64) * table_stride,
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
            acc = acc / tl.where(running_sum > 0.0, running_sum, 1.0)[:, None]
        if NUM_SPLITS == 1:
            out_rows = flat_tokens * out_stride_token + heads * out_stride_head
            tl.store(
                out + out_rows[:, None] + dims[None, :], acc.to(out.dtype.element_ty), mask=mask
            )
        else:
            # [ROWS]
            part = (flat_tokens * (tl.num_programs(1) * GROUP) + heads) * NUM_SPLITS + split
            # For a row that sees nothing in this range, a log-sum-exp of -inf gives a weight of 0.
            lse = running_max + tl.log2(tl.where(running_sum > 0.0, running_sum, 1.0))
            tl.store(part_lse + part, tl.where(running_sum > 0.0, lse, float("-inf")), mask=is_row)
            tl.store(out + part[:, None] * HEAD_SIZE + dims[None, :], acc, mask=mask)


@triton.jit
def reduce_parts_kernel(
    part_out,  # [num_tokens, num_heads, NUM_SPLITS, HEAD_SIZE] float32, contiguous
    part_lse,  # [num_tokens, num_heads, NUM_SPLITS] float32, contiguous
    out,  # [num_tokens, num_heads, HEAD_SIZE]
    out_stride_token,
    out_stride_head,
    NUM_SPLITS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_SIZE_PADDED: tl.constexpr,
):
    """Program (token, query head): the mean of the parts, weighted by 2^(log-sum-exp)."""
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    splits, dims = tl.arange(0, NUM_SPLITS), tl.arange(0, HEAD_SIZE_PADDED)
    part = (token * tl.num_programs(1) + head) * NUM_SPLITS + splits
    lse = tl.load(part_lse + part)
    is_dim = dims < HEAD_SIZE
    outs = tl.load(
        part_out + part[:, None] * HEAD_SIZE + dims[None, :], mask=is_dim[None, :], other=0.0
    )
    # A padded row has no parts. Use a maximum of 0, not -inf, so that its weights are 0, not NaN.
    largest = tl.max(lse, 0)
    weights = tl.exp2(lse - tl.where(largest == float("-inf"), 0.0, largest))
    total = tl.sum(weights, 0)
    mean = tl.sum(weights[:, None] * outs, 0) / tl.where(total > 0.0, total, 1.0)
    pointers = out + token * out_stride_token + head * out_stride_head + dims
    tl.store(pointers, mean.to(out.dtype.element_ty), mask=is_dim)


def unified_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    has_chunks: bool,
    num_splits: int = 1,
    workspace: SplitWorkspace | None = None,
    out: torch.Tensor | None = None,
    window: int = 0,
) -> torch.Tensor:
    """Compute `minivllm.kernels.reference.paged_attention` for all tokens of a batch.

    query: [num_tokens, num_heads, head_size]; block_tables: [num_seqs, max_blocks]
    query_start_loc: [num_seqs + 1] and seq_lens: [num_seqs], int32 on the device; a sequence of
        length 0 gets zeros
    has_chunks: whether any sequence has more than one token
    num_splits: a power of two, see `choose_num_splits`
    workspace: for this number of tokens and splits; allocated if not given

    Writes and returns `out` if given.
    """
    num_tokens, num_heads, head_size = query.shape
    num_seqs, num_kv_heads = len(seq_lens), key_cache.shape[2]
    group = num_heads // num_kv_heads
    launch = unified_launch(head_size, query.dtype, has_chunks=has_chunks)
    rows = launch.rows_of(group)
    out = torch.empty_like(query) if out is None else out
    block_tables = wide_enough(block_tables, key_cache)
    if num_splits > 1 and workspace is None:
        workspace = SplitWorkspace.empty(query, num_splits)
    target, lse = (
        (out, seq_lens) if workspace is None or num_splits == 1 else (workspace.out, workspace.lse)
    )
    sizes = {
        "NUM_SPLITS": num_splits,
        "HEAD_SIZE": head_size,
        "HEAD_SIZE_PADDED": padded_head_size(head_size),
    }
    unified_kernel[(num_tokens // (rows // group) + num_seqs, num_kv_heads, num_splits)](
        query,
        target,
        lse,
        key_cache,
        value_cache,
        block_tables,
        query_start_loc,
        seq_lens,
        num_seqs,
        scale * LOG2_E,
        *query.stride()[:2],
        *target.stride()[:2],
        *key_cache.stride()[:3],
        block_tables.stride(0),
        GROUP=group,
        BLOCK_SIZE=key_cache.shape[1],
        ROWS=rows,
        TILE=launch.tile,
        WINDOW=window,
        **launch.options,
        **sizes,
    )
    if num_splits > 1:
        reduce_parts_kernel[(num_tokens, num_heads)](
            target,
            lse,
            out,
            *out.stride()[:2],
            num_warps=reduce_warps(num_splits, head_size),
            **sizes,
        )
    return out
