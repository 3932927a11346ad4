"""The softmax is written out, with natural exponentials."""

import torch

from minivllm.kernels.attention.decode_naive import (
    TILE,
    decode_naive_kernel,
    padded_head_size,
    slot_offsets,
    wide_enough,
)
from minivllm.kernels.mode import tl


def decode_naive_kernel_(
    query, out, key_cache, value_cache, block_tables, seq_lens, scale,
    query_stride_seq, query_stride_head, out_stride_seq, out_stride_head,
    stride_block, stride_slot, stride_head, table_stride,
    GROUP, BLOCK_SIZE, HEAD_SIZE, HEAD_SIZE_PADDED, TILE,
):  # fmt: skip
    seq = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    num_tokens = tl.load(seq_lens + seq)
    dims = tl.arange(0, HEAD_SIZE_PADDED)
    in_head = dims < HEAD_SIZE
    own_query = query + seq * query_stride_seq + head * query_stride_head
    q = tl.load(own_query + dims, mask=in_head & (num_tokens > 0), other=0.0).to(tl.float32) * scale
    largest = -float("inf")
    total = 0.0
    acc = tl.zeros([HEAD_SIZE_PADDED], tl.float32)
    for begin in range(0, num_tokens, TILE):
        positions = begin + tl.arange(0, TILE)
        is_known = positions < num_tokens
        table = block_tables + seq * table_stride
        offsets = slot_offsets(
            positions, is_known, table, head // GROUP, stride_block, stride_slot, stride_head,
            BLOCK_SIZE,
        )  # fmt: skip
        where = offsets[:, None] + dims[None, :]
        wanted = is_known[:, None] & in_head[None, :]
        keys = tl.load(key_cache + where, mask=wanted, other=0.0).to(tl.float32)
        values = tl.load(value_cache + where, mask=wanted, other=0.0).to(tl.float32)
        scores = tl.where(is_known, tl.sum(keys * q[None, :], 1), -float("inf"))
        now_largest = tl.maximum(largest, tl.max(scores, 0))
        shrink = tl.exp(largest - now_largest)
        weights = tl.exp(scores - now_largest)
        total = total * shrink + tl.sum(weights, 0)
        acc = acc * shrink + tl.sum(weights[:, None] * values, 0)
        largest = now_largest
    if num_tokens > 0:
        acc = acc / total
    own_out = out + seq * out_stride_seq + head * out_stride_head
    tl.store(own_out + dims, acc.to(out.dtype.element_ty), mask=in_head)


def decode_naive(query, key_cache, value_cache, block_tables, seq_lens, scale, out=None):
    if out is None:
        out = torch.empty_like(query)
    tables = wide_enough(block_tables, key_cache)
    _, block_size, num_kv_heads, head_size = key_cache.shape
    decode_naive_kernel[(query.shape[0], query.shape[1])](
        query, out, key_cache, value_cache, tables, seq_lens, scale,
        query.stride(0), query.stride(1), out.stride(0), out.stride(1),
        key_cache.stride(0), key_cache.stride(1), key_cache.stride(2), tables.stride(0),
        GROUP=query.shape[1] // num_kv_heads,
        BLOCK_SIZE=block_size,
        HEAD_SIZE=head_size,
        HEAD_SIZE_PADDED=padded_head_size(head_size),
        TILE=TILE,
    )  # fmt: skip
    return out
