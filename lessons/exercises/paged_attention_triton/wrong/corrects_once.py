"""Only the first tile is scaled down, when the second one comes."""

from minivllm.kernels.attention.online_softmax import slot_offsets, softmax_update
from minivllm.kernels.mode import tl, triton

HINT = (
    "A third tile can have a larger score than both. Which tiles can raise the largest score, and"
    " what must be scaled down then?"
)


# Tables have many widths; one compilation serves all.
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
    seq, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    seq_len = tl.load(seq_lens + seq)
    dims = tl.arange(0, HEAD_SIZE_PADDED)
    is_dim = dims < HEAD_SIZE
    running_max = tl.full([1], float("-inf"), tl.float32)
    running_sum = tl.zeros([1], tl.float32)
    acc = tl.zeros([1, HEAD_SIZE_PADDED], tl.float32)
    if seq_len > 0:  # a padded row's query is not read either
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
            if tile_start == TILE:
                acc = acc * correction[:, None]
            acc += tl.sum(weights[:, :, None] * v[None, :, :], 1)
    acc = acc / tl.where(running_sum > 0.0, running_sum, 1.0)[:, None]
    pointers = out + seq * out_stride_seq + head * out_stride_head + dims[None, :]
    tl.store(pointers, acc.to(out.dtype.element_ty), mask=is_dim[None, :])
