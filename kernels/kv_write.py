"""Writes to the KV cache: new keys and values by slot mapping, and whole blocks for copy-on-write.

A program copies one token, or a piece of one block. In a cache of a few GiB, `block_id * stride`
exceeds 2^31, so block ids are converted to int64 *before* the multiplication.

Source: vLLM `reshape_and_cache_flash`, `copy_blocks` (csrc/cache_kernels.cu).
"""

import torch

from minivllm.kernels.mode import tl, triton

COPY_CHUNK = 4096
"""How many numbers of a block one program copies: enough that starting a program costs little."""


@triton.jit
def store_heads(
    cache,  # [num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_SIZE]
    x,  # [HEADS_PADDED, HEAD_SIZE_PADDED], of one token
    rows,  # [HEADS_PADDED, 1] offsets of the token's rows
    offset,  # of the token in its block
    dims,  # [1, HEAD_SIZE_PADDED]
    is_head,  # [HEADS_PADDED, 1]
    HEAD_SIZE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    """Write a token's heads in the cache's dtype; with int8, their scales too (`load_scales`)."""
    is_real = is_head & (dims < HEAD_SIZE)
    if cache.dtype.element_ty == tl.int8:
        exact = tl.where(is_real, x.to(tl.float32), 0.0)
        # Without the sign, the bits of floats sort like the numbers, and NaN comes last.
        bits = exact.to(tl.int32, bitcast=True) & 0x7FFFFFFF
        largest = tl.max(bits, 1)[:, None].to(tl.float32, bitcast=True)
        scales = largest * (1 / 127)
        scales = tl.where(scales < 1e-6, 1e-6, scales)
        numbers = exact * tl.div_rn(tl.full(scales.shape, 1.0, tl.float32), scales)
        numbers = tl.where(numbers > 127.0, 127.0, tl.where(numbers < -127.0, -127.0, numbers))
        # Round to a whole number: adding 1.5 * 2^23 leaves no bits for a fraction.
        numbers = (numbers + 12582912.0) - 12582912.0
        tl.store(cache + rows + dims, numbers.to(tl.int8), mask=is_real)
        pointers = cache + rows + (BLOCK_SIZE - offset) * HEAD_SIZE + offset * 4
        pointers = pointers.to(tl.pointer_type(tl.float32), bitcast=True)
        tl.store(pointers, scales, mask=is_head)
    else:
        tl.store(cache + rows + dims, x.to(cache.dtype.element_ty), mask=is_real)


@triton.jit
def reshape_and_cache_kernel(
    key,  # [num_tokens, num_kv_heads, head_size], and `value` like it
    value,
    key_cache,  # [num_blocks, block_size, num_kv_heads, head_size], and `value_cache` like it
    value_cache,
    slot_mapping,  # [num_tokens]
    key_stride_token,
    key_stride_head,
    value_stride_token,
    value_stride_head,
    cache_stride_block,
    cache_stride_slot,
    cache_stride_head,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    HEADS_PADDED: tl.constexpr,
    HEAD_SIZE_PADDED: tl.constexpr,
):
    """Program (token): all heads of the token."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping + token).to(tl.int64)
    if slot >= 0:
        heads = tl.arange(0, HEADS_PADDED)[:, None]
        dims = tl.arange(0, HEAD_SIZE_PADDED)[None, :]
        is_real = (heads < NUM_KV_HEADS) & (dims < HEAD_SIZE)  # [HEADS_PADDED, HEAD_SIZE_PADDED]
        offset = slot % BLOCK_SIZE
        rows = (slot // BLOCK_SIZE) * cache_stride_block + offset * cache_stride_slot
        rows += heads * cache_stride_head
        k = tl.load(key + token * key_stride_token + heads * key_stride_head + dims, mask=is_real)
        v = tl.load(
            value + token * value_stride_token + heads * value_stride_head + dims, mask=is_real
        )
        is_head = heads < NUM_KV_HEADS
        store_heads(key_cache, k, rows, offset, dims, is_head, HEAD_SIZE, BLOCK_SIZE)
        store_heads(value_cache, v, rows, offset, dims, is_head, HEAD_SIZE, BLOCK_SIZE)


def reshape_and_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Write each token's key and value to its slot.

    key, value: [num_tokens, num_kv_heads, head_size], the last dimension contiguous
    key_cache, value_cache: [num_blocks, block_size, num_kv_heads, head_size], with equal strides,
        changed in place
    slot_mapping: [num_tokens], `block_id * block_size + offset`, all different; a token with slot
        -1 is not written
    """
    num_tokens, num_kv_heads, head_size = key.shape
    reshape_and_cache_kernel[(num_tokens,)](
        key,
        value,
        key_cache,
        value_cache,
        slot_mapping,
        *key.stride()[:2],
        *value.stride()[:2],
        *key_cache.stride()[:3],
        NUM_KV_HEADS=num_kv_heads,
        HEAD_SIZE=head_size,
        BLOCK_SIZE=key_cache.shape[1],
        HEADS_PADDED=triton.next_power_of_2(num_kv_heads),
        HEAD_SIZE_PADDED=triton.next_power_of_2(head_size),
    )


@triton.jit
def copy_blocks_kernel(
    caches,  # [num_caches, num_blocks, block_numel]
    src,  # [num_copies], and `dst` like it
    dst,
    stride_cache,
    stride_block,
    block_numel,
    CHUNK: tl.constexpr,
):
    """Program (copy, cache, chunk): a piece of one block."""
    cache = caches + tl.program_id(1).to(tl.int64) * stride_cache
    source = tl.load(src + tl.program_id(0)).to(tl.int64) * stride_block
    target = tl.load(dst + tl.program_id(0)).to(tl.int64) * stride_block
    offsets = tl.program_id(2) * CHUNK + tl.arange(0, CHUNK)
    is_real = offsets < block_numel
    tl.store(
        cache + target + offsets, tl.load(cache + source + offsets, mask=is_real), mask=is_real
    )


def copy_blocks(caches: torch.Tensor, src: torch.Tensor, dst: torch.Tensor) -> None:
    """Copy block src[i] to block dst[i] in all caches, with one launch for all layers.

    caches: [num_caches, num_blocks, ...], changed in place; the numbers of a block are contiguous
    src, dst: [num_copies]; no block may be in both, because programs run in any order
    """
    flat = caches.flatten(2)  # [num_caches, num_blocks, block_numel], a view
    num_caches, _, block_numel = flat.shape
    copy_blocks_kernel[(len(src), num_caches, triton.cdiv(block_numel, COPY_CHUNK))](
        flat, src, dst, flat.stride(0), flat.stride(1), block_numel, CHUNK=COPY_CHUNK
    )
