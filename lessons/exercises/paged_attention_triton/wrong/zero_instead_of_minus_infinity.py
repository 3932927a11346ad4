"""Keys that are not loaded score 0."""

import torch

from minivllm.kernels.mode import tl, triton
from minivllm.kernels.online_softmax import LOG2_E, padded_head_size, slot_offsets, softmax_update

HINT = "exp2(0) is 1: a position that is not there has weight. Which score has none?"


@triton.jit
def kernel(
    query, out, key_cache, value_cache, block_tables, seq_lens, scale, q_seq, q_head, o_seq, o_head,
    stride_block, stride_slot, stride_head, table_stride,
    GROUP: tl.constexpr, BLOCK_SIZE: tl.constexpr, HEAD_SIZE: tl.constexpr, PADDED: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    seq, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    seq_len = tl.load(seq_lens + seq)
    dims = tl.arange(0, PADDED)
    is_dim = dims < HEAD_SIZE
    running_max = tl.full([1], float("-inf"), tl.float32)
    running_sum = tl.zeros([1], tl.float32)
    acc = tl.zeros([1, PADDED], tl.float32)
    q = tl.load(query + seq * q_seq + head * q_head + dims, mask=is_dim & (seq_len > 0), other=0.0).to(tl.float32)
    for start in range(0, seq_len, TILE):
        positions = start + tl.arange(0, TILE)
        is_real = positions < seq_len
        table = block_tables + seq * table_stride
        kv_head = head // GROUP
        offsets = slot_offsets(positions, is_real, table, kv_head, stride_block, stride_slot, stride_head, BLOCK_SIZE)
        pointers, mask = offsets[:, None] + dims[None, :], is_real[:, None] & is_dim[None, :]
        k = tl.load(key_cache + pointers, mask=mask, other=0.0).to(tl.float32)
        scores = tl.sum(q[None, :] * k, 1) * scale
        weights, correction, running_max, running_sum = softmax_update(scores[None, :], running_max, running_sum)
        v = tl.load(value_cache + pointers, mask=mask, other=0.0).to(tl.float32)
        acc = acc * correction[:, None] + tl.sum(weights[:, :, None] * v[None, :, :], 1)
    acc = acc / tl.where(running_sum > 0.0, running_sum, 1.0)[:, None]
    tl.store(out + seq * o_seq + head * o_head + dims[None, :], acc.to(out.dtype.element_ty), mask=is_dim[None, :])


def decode_naive(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    num_seqs, num_heads, head_size = query.shape
    out = torch.empty_like(query) if out is None else out
    kernel[(num_seqs, num_heads)](
        query, out, key_cache, value_cache, block_tables, seq_lens, scale * LOG2_E,
        *query.stride()[:2], *out.stride()[:2], *key_cache.stride()[:3], block_tables.stride(0),
        GROUP=num_heads // key_cache.shape[2], BLOCK_SIZE=key_cache.shape[1], HEAD_SIZE=head_size,
        PADDED=padded_head_size(head_size), TILE=16,
    )  # fmt: skip
    return out
