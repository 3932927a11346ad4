"""Rotary position embedding and the KV write in one kernel.

Two separate kernels would read and write each key twice; the fused kernel does so once. A program
takes one token, with all heads of its query, key and value.

A number's partner in a rotation is not its neighbour but half a head away ("rotate half"): at a
distance of head_size / 2, not of half the padded width.

Source: "RoFormer" (Su et al., 2021); vLLM `rotary_embedding` + `reshape_and_cache_flash`.
"""

import torch

from minivllm.kernels.kv_write import reshape_and_cache, store_heads
from minivllm.kernels.mode import tl, triton
from minivllm.kernels.reference_ops import rotate


@triton.jit
def load_rotated(pointers, dims, mask, cos, sin, HEAD_SIZE: tl.constexpr):
    """Load and rotate the heads at `pointers` [heads, 1]; -> [heads, HEAD_SIZE_PADDED] float32."""
    partners = tl.where(dims < HEAD_SIZE // 2, dims + HEAD_SIZE // 2, dims - HEAD_SIZE // 2)
    x = tl.load(pointers + dims, mask=mask, other=0.0).to(tl.float32)
    partner = tl.load(pointers + partners, mask=mask, other=0.0).to(tl.float32)
    return x * cos + partner * sin


@triton.jit
def rotary_and_cache_kernel(
    query,  # [num_tokens, num_heads, HEAD_SIZE], and `rotated_query` like it, contiguous
    rotated_query,
    key,  # [num_tokens, num_kv_heads, HEAD_SIZE], and `value` like it
    value,
    cos,  # [num_tokens, 1, HEAD_SIZE], and `sin` like it
    sin,
    key_cache,  # [num_blocks, block_size, num_kv_heads, HEAD_SIZE], and `value_cache` like it
    value_cache,
    slot_mapping,  # [num_tokens]
    query_stride_token,
    query_stride_head,
    key_stride_token,
    key_stride_head,
    value_stride_token,
    value_stride_head,
    angle_stride,
    cache_stride_block,
    cache_stride_slot,
    cache_stride_head,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    HEADS_PADDED: tl.constexpr,
    KV_HEADS_PADDED: tl.constexpr,
    HEAD_SIZE_PADDED: tl.constexpr,
):
    """Program (token)."""
    token = tl.program_id(0).to(tl.int64)
    dims = tl.arange(0, HEAD_SIZE_PADDED)[None, :]
    is_dim = dims < HEAD_SIZE
    # [1, HEAD_SIZE_PADDED]
    c = tl.load(cos + token * angle_stride + dims, mask=is_dim, other=0.0).to(tl.float32)
    s = tl.load(sin + token * angle_stride + dims, mask=is_dim, other=0.0).to(tl.float32)

    heads = tl.arange(0, HEADS_PADDED)[:, None]
    is_head = (heads < NUM_HEADS) & is_dim
    q_heads = query + token * query_stride_token + heads * query_stride_head
    q = load_rotated(q_heads, dims, is_head, c, s, HEAD_SIZE)
    target = rotated_query + (token * NUM_HEADS + heads) * HEAD_SIZE + dims
    tl.store(target, q.to(rotated_query.dtype.element_ty), mask=is_head)

    slot = tl.load(slot_mapping + token).to(tl.int64)
    if slot >= 0:
        kv_heads = tl.arange(0, KV_HEADS_PADDED)[:, None]
        is_kv_head = (kv_heads < NUM_KV_HEADS) & is_dim
        k_heads = key + token * key_stride_token + kv_heads * key_stride_head
        k = load_rotated(k_heads, dims, is_kv_head, c, s, HEAD_SIZE)
        v_heads = value + token * value_stride_token + kv_heads * value_stride_head
        v = tl.load(v_heads + dims, mask=is_kv_head)
        offset = slot % BLOCK_SIZE
        rows = (slot // BLOCK_SIZE) * cache_stride_block + offset * cache_stride_slot
        rows += kv_heads * cache_stride_head
        # Round as the model does: the decoder rotates in its own dtype.
        k = k.to(key.dtype.element_ty)
        is_real_head = kv_heads < NUM_KV_HEADS
        store_heads(key_cache, k, rows, offset, dims, is_real_head, HEAD_SIZE, BLOCK_SIZE)
        store_heads(value_cache, v, rows, offset, dims, is_real_head, HEAD_SIZE, BLOCK_SIZE)


def rotary_and_cache(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> torch.Tensor:
    """See `minivllm.kernels.reference_ops.rotary_and_cache`."""
    num_tokens, num_heads, head_size = query.shape
    num_kv_heads = key.shape[1]
    rotated_query = torch.empty(
        num_tokens, num_heads, head_size, dtype=query.dtype, device=query.device
    )
    rotary_and_cache_kernel[(num_tokens,)](
        query,
        rotated_query,
        key,
        value,
        cos,
        sin,
        key_cache,
        value_cache,
        slot_mapping,
        *query.stride()[:2],
        *key.stride()[:2],
        *value.stride()[:2],
        cos.stride(0),
        *key_cache.stride()[:3],
        NUM_HEADS=num_heads,
        NUM_KV_HEADS=num_kv_heads,
        HEAD_SIZE=head_size,
        BLOCK_SIZE=key_cache.shape[1],
        HEADS_PADDED=triton.next_power_of_2(num_heads),
        KV_HEADS_PADDED=triton.next_power_of_2(num_kv_heads),
        HEAD_SIZE_PADDED=triton.next_power_of_2(head_size),
    )
    return rotated_query


def rotate_then_cache(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *caches_and_slots: torch.Tensor,
) -> torch.Tensor:
    """`rotary_and_cache` without the fused kernel: torch rotates, then a kernel writes."""
    reshape_and_cache(rotate(key, cos, sin), value, *caches_and_slots)
    return rotate(query, cos, sin)
