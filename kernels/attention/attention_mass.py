"""The share of the last token's attention on each block of its sequence.

A block's share is the sum of its tokens' softmax weights. It equals the softmax over the blocks'
log-sum-exps. So each program computes the log-sum-exp of one block, and no program needs the
maximum of the whole context. The kernel reads keys but no values, so half as much as attention. The
result keeps a row for each head, because different heads attend to different blocks.
"""

import math

import torch

from minivllm.kernels.attention.decode_grouped import load_group
from minivllm.kernels.attention.online_softmax import (
    LOG2_E,
    MIN_DOT,
    padded_head_size,
    score_tile,
    softmax_update,
    wide_enough,
)
from minivllm.kernels.launch_table import decode_launch
from minivllm.kernels.mode import tl, triton


# Block tables have many widths; one compilation serves all of them.
@triton.jit(do_not_specialize=["table_stride"])
def block_lse_kernel(
    query,  # [num_seqs, num_heads, HEAD_SIZE]
    block_lse,  # [num_seqs, num_heads, max_blocks] float32 contiguous
    key_cache,  # [num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_SIZE]
    block_tables,  # [num_seqs, max_blocks]
    seq_lens,  # [num_seqs]
    scale,
    query_stride_seq,
    query_stride_head,
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
    """Program (sequence, key head, block of the sequence)."""
    seq, kv_head, block = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    seq_len = tl.load(seq_lens + seq)
    first = block * BLOCK_SIZE
    end = tl.minimum(first + BLOCK_SIZE, seq_len)
    if WINDOW > 0:
        first = tl.maximum(first, seq_len - WINDOW)
    running_max = tl.full([ROWS], float("-inf"), tl.float32)
    # For a block without tokens, -inf + log2(1) is -inf.
    running_sum = tl.full([ROWS], 1.0, tl.float32)
    if first < end:
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
        last_visible = tl.full([ROWS], 0, tl.int32) + (seq_len - 1)
        for tile_start in range(first, end, TILE):
            scores, _, _ = score_tile(
                q,
                last_visible,
                tile_start,
                end,
                scale,
                key_cache,
                block_tables + seq * table_stride,
                kv_head,
                stride_block,
                stride_slot,
                stride_head,
                BLOCK_SIZE,
                HEAD_SIZE,
                HEAD_SIZE_PADDED,
                TILE,
                WINDOW,
                False,
            )
            _, _, running_max, running_sum = softmax_update(scores, running_max, running_sum)
    rows = tl.arange(0, ROWS)
    row = seq * tl.num_programs(1) * GROUP + kv_head * GROUP + rows
    pointers = block_lse + row * tl.num_programs(2) + block
    tl.store(pointers, running_max + tl.log2(running_sum), mask=rows < GROUP)


def attention_mass(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    window: int = 0,
) -> torch.Tensor:
    """See `minivllm.kernels.reference.attention_mass`."""
    num_seqs, num_heads, head_size = query.shape
    _, block_size, num_kv_heads, _ = key_cache.shape
    max_blocks = block_tables.shape[1]
    group = num_heads // num_kv_heads
    launch = decode_launch(head_size, query.dtype)
    block_tables = wide_enough(block_tables, key_cache)
    block_lse = torch.empty(
        num_seqs, num_heads, max_blocks, dtype=torch.float32, device=query.device
    )
    block_lse_kernel[(num_seqs, num_kv_heads, max_blocks)](
        query,
        block_lse,
        key_cache,
        block_tables,
        seq_lens,
        scale * LOG2_E,
        *query.stride()[:2],
        *key_cache.stride()[:3],
        block_tables.stride(0),
        GROUP=group,
        BLOCK_SIZE=block_size,
        HEAD_SIZE=head_size,
        HEAD_SIZE_PADDED=padded_head_size(head_size),
        ROWS=launch.rows_of(group),
        TILE=min(launch.tile, max(MIN_DOT, triton.next_power_of_2(block_size))),
        WINDOW=window,
        num_warps=launch.num_warps,
    )
    # A row of length 0 has no block, so its softmax is NaN.
    return torch.softmax(block_lse * math.log(2), dim=-1).nan_to_num(0.0)
