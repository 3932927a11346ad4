"""Decode attention, kernel version 1: one program for each sequence and query head.

The simplest correct kernel: a program reads its sequence's context tile by tile, through the block
table, with the online softmax and vector products. Three things make it slow (versions 2 and 3
fix them):

    - every query head of a group reads the same keys again (a group of 8 reads them eight times)
    - the kernel uses no matrix instructions
    - with few sequences, most of the GPU is idle

A padded row of a CUDA graph is a sequence of length 0. Its softmax sum is 0, and its output zeros.

Source: vLLM `paged_attention_v1` (csrc/attention/attention_kernels.cuh).
"""

import torch

from minivllm.kernels.attention.online_softmax import (
    LOG2_E,
    padded_head_size,
    slot_offsets,
    softmax_update,
    wide_enough,
)
from minivllm.kernels.mode import tl, triton

TILE = 16


# Block tables have many widths; one compilation serves all of them.
@triton.jit(do_not_specialize=["table_stride"])
def decode_naive_kernel(
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
    TILE: tl.constexpr,
):
    """Program (sequence, query head)."""
    seq, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    seq_len = tl.load(seq_lens + seq)
    dims = tl.arange(0, HEAD_SIZE_PADDED)
    is_dim = dims < HEAD_SIZE
    running_max = tl.full([1], float("-inf"), tl.float32)
    running_sum = tl.zeros([1], tl.float32)
    acc = tl.zeros([1, HEAD_SIZE_PADDED], tl.float32)
    if seq_len > 0:  # for a padded row, do not even read the query
        q = tl.load(
            query + seq * query_stride_seq + head * query_stride_head + dims, mask=is_dim, other=0.0
        )
        q = q.to(tl.float32)
        for tile_start in range(0, seq_len, TILE):
            positions = tile_start + tl.arange(0, TILE)
            is_real = positions < seq_len
            offsets = slot_offsets(
                positions,
                is_real,
                block_tables + seq * table_stride,
                head // GROUP,
                stride_block,
                stride_slot,
                stride_head,
                BLOCK_SIZE,
            )
            pointers, mask = offsets[:, None] + dims[None, :], is_real[:, None] & is_dim[None, :]
            # [TILE, HEAD_SIZE_PADDED]
            k = tl.load(key_cache + pointers, mask=mask, other=0.0).to(tl.float32)
            scores = tl.where(is_real, tl.sum(q[None, :] * k, 1) * scale, float("-inf"))
            weights, correction, running_max, running_sum = softmax_update(
                scores[None, :], running_max, running_sum
            )
            v = tl.load(value_cache + pointers, mask=mask, other=0.0).to(tl.float32)
            acc = acc * correction[:, None] + tl.sum(weights[:, :, None] * v[None, :, :], 1)
    acc = acc / tl.where(running_sum > 0.0, running_sum, 1.0)[:, None]
    pointers = out + seq * out_stride_seq + head * out_stride_head + dims[None, :]
    tl.store(pointers, acc.to(out.dtype.element_ty), mask=is_dim[None, :])


def decode_naive(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """See `minivllm.kernels.reference.decode_attention`. Writes and returns `out` if given."""
    num_seqs, num_heads, head_size = query.shape
    out = torch.empty_like(query) if out is None else out
    block_tables = wide_enough(block_tables, key_cache)
    decode_naive_kernel[(num_seqs, num_heads)](
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
        GROUP=num_heads // key_cache.shape[2],
        BLOCK_SIZE=key_cache.shape[1],
        HEAD_SIZE=head_size,
        HEAD_SIZE_PADDED=padded_head_size(head_size),
        TILE=TILE,
        num_warps=2,
    )
    return out
