"""The inner loop of all attention kernels: online softmax over tiles of keys.

A row is one query of one head. Keys are read tile by tile, and each row keeps three values:

    running_max   the largest score so far
    running_sum   the sum of exp(score - running_max)
    acc           the sum of exp(score - running_max) * value

When a tile raises the maximum, running_sum and acc are multiplied by exp(old - new). The kernels
multiply scores by log2(e) and use 2^x instead of exp, because a GPU has an instruction for 2^x.

Tiles are independent of blocks: each position looks up its own block. After a sequence's end, slots
can hold NaN, and block-table entries can be invalid ids. So both loads must be masked; a weight of
0 is not enough, because 0 * NaN is NaN.

Source: "Online normalizer calculation for softmax" (Milakov and Gimelshein, 2018); FlashAttention-2
(Dao, 2023).
"""

import math

import torch

from minivllm.kernels.mode import tl, triton

LOG2_E = math.log2(math.e)
MIN_DOT = 16
"""`tl.dot` needs at least this size in every dimension."""


def padded_head_size(head_size: int) -> int:
    """Width of a loaded head: a power of two (for `tl.arange`), at least 16 (for `tl.dot`)."""
    return max(MIN_DOT, triton.next_power_of_2(head_size))


def wide_enough(block_tables: torch.Tensor, key_cache: torch.Tensor) -> torch.Tensor:
    """Return the block tables in a dtype wide enough for offsets into the cache.

    That is int32, except for caches with over 2^31 numbers per layer. 64-bit offsets take twice as
    many registers, and prefill is then 7 % slower on an H100.
    """
    return block_tables if key_cache.shape[0] * key_cache.stride(0) < 2**31 else block_tables.long()


@triton.jit
def softmax_update(scores, running_max, running_sum):
    """Add a tile of scores to the softmax of its rows.

    scores: [rows, tile]; each row needs a score above -inf, in this tile or an earlier one
    running_max, running_sum: [rows]

    Returns the tile's weights [rows, tile], the factor for acc [rows], and the new running_max and
    running_sum.
    """
    new_max = tl.maximum(running_max, tl.max(scores, 1))
    weights = tl.exp2(scores - new_max[:, None])
    correction = tl.exp2(running_max - new_max)  # 0 for the first tile: exp2(-inf)
    new_sum = running_sum * correction + tl.sum(weights, 1)
    return weights, correction, new_max, new_sum


@triton.jit
def slot_offsets(
    positions,  # [tile]
    is_real,  # [tile]
    block_table,  # [max_blocks]
    kv_head,
    stride_block,
    stride_slot,
    stride_head,
    BLOCK_SIZE: tl.constexpr,
):
    """Return the offsets of these positions' keys in the cache: [tile], in the table's dtype."""
    block_ids = tl.load(block_table + positions // BLOCK_SIZE, mask=is_real, other=0)
    return block_ids * stride_block + (positions % BLOCK_SIZE) * stride_slot + kv_head * stride_head


@triton.jit
def load_scales(
    cache,  # int8: a block of one head has BLOCK_SIZE rows of HEAD_SIZE numbers, then their scales
    offsets,  # [tile], of the positions' rows
    positions,  # [tile]
    is_real,  # [tile]
    BLOCK_SIZE: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
):
    """Return the float32 scales of these positions' rows: [tile]."""
    rows_left = BLOCK_SIZE - positions % BLOCK_SIZE
    pointers = cache + offsets + rows_left * HEAD_SIZE + (positions % BLOCK_SIZE) * 4
    pointers = pointers.to(tl.pointer_type(tl.float32), bitcast=True)
    return tl.load(pointers, mask=is_real, other=0.0)


@triton.jit
def score_tile(
    q,  # [rows, HEAD_SIZE_PADDED], zero beyond HEAD_SIZE
    last_visible,  # [rows]: the last position that each row sees
    tile_start,  # first of the tile's TILE positions; only positions before `end` are real
    end,
    scale,  # factor of the scores, including log2(e)
    key_cache,  # [num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_SIZE]
    block_table,  # [max_blocks], the sequence's row
    kv_head,
    stride_block,
    stride_slot,
    stride_head,
    BLOCK_SIZE: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_SIZE_PADDED: tl.constexpr,
    TILE: tl.constexpr,
    # how many positions a row sees, its own included; 0 for all
    WINDOW: tl.constexpr,
    # whether every row sees every position of the tile; then only the head's padding needs a mask
    IS_FULL: tl.constexpr,
):
    """Return the scores [rows, TILE] (-inf for invisible keys), offsets [TILE], is_real [TILE]."""
    dims = tl.arange(0, HEAD_SIZE_PADDED)
    positions = tile_start + tl.arange(0, TILE)
    is_real = (positions < end) | IS_FULL
    offsets = slot_offsets(
        positions, is_real, block_table, kv_head, stride_block, stride_slot, stride_head, BLOCK_SIZE
    )
    # Keys are loaded transposed, [HEAD_SIZE_PADDED, TILE], as the right side of the product.
    pointers = key_cache + offsets[None, :] + dims[:, None]
    if IS_FULL and HEAD_SIZE == HEAD_SIZE_PADDED:
        k = tl.load(pointers)
    else:
        k = tl.load(pointers, mask=(dims[:, None] < HEAD_SIZE) & is_real[None, :], other=0.0)
    # "ieee" keeps float32; the default would round the operands to 10 bits (TF32).
    scores = tl.dot(q, k.to(q.dtype), input_precision="ieee") * scale
    if key_cache.dtype.element_ty == tl.int8:
        # One multiplication for each key, not for each of its numbers.
        scales = load_scales(key_cache, offsets, positions, is_real, BLOCK_SIZE, HEAD_SIZE)
        scores = scores * scales[None, :]
    if not IS_FULL:
        is_visible = is_real[None, :] & (positions[None, :] <= last_visible[:, None])
        if WINDOW > 0:
            is_visible &= positions[None, :] > last_visible[:, None] - WINDOW
        scores = tl.where(is_visible, scores, float("-inf"))
    return scores, offsets, is_real


@triton.jit
def attend_tile(
    q,  # [rows, HEAD_SIZE_PADDED], zero beyond HEAD_SIZE
    acc,  # [rows, HEAD_SIZE_PADDED] float32
    running_max,  # [rows] float32, and `running_sum` like it
    running_sum,
    last_visible,  # [rows]: the last position that each row sees
    tile_start,
    end,
    scale,
    key_cache,  # [num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_SIZE], and `value_cache` like it
    value_cache,
    block_table,  # [max_blocks], the sequence's row
    kv_head,
    stride_block,
    stride_slot,
    stride_head,
    BLOCK_SIZE: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_SIZE_PADDED: tl.constexpr,
    TILE: tl.constexpr,
    WINDOW: tl.constexpr,
    IS_FULL: tl.constexpr,
):
    """Add one tile of keys and values; return the new acc, running_max and running_sum."""
    scores, offsets, is_real = score_tile(
        q,
        last_visible,
        tile_start,
        end,
        scale,
        key_cache,
        block_table,
        kv_head,
        stride_block,
        stride_slot,
        stride_head,
        BLOCK_SIZE,
        HEAD_SIZE,
        HEAD_SIZE_PADDED,
        TILE,
        WINDOW,
        IS_FULL,
    )
    weights, correction, running_max, running_sum = softmax_update(scores, running_max, running_sum)
    dims = tl.arange(0, HEAD_SIZE_PADDED)
    pointers = value_cache + offsets[:, None] + dims[None, :]
    if IS_FULL and HEAD_SIZE == HEAD_SIZE_PADDED:
        v = tl.load(pointers)
    else:
        v = tl.load(pointers, mask=is_real[:, None] & (dims[None, :] < HEAD_SIZE), other=0.0)
    if value_cache.dtype.element_ty == tl.int8:
        positions = tile_start + tl.arange(0, TILE)
        scales = load_scales(value_cache, offsets, positions, is_real, BLOCK_SIZE, HEAD_SIZE)
        weights = weights * scales[None, :]
    v = v.to(q.dtype)
    acc = tl.dot(weights.to(v.dtype), v, acc * correction[:, None], input_precision="ieee")
    return acc, running_max, running_sum


@triton.jit
def attend_rows(
    q,  # [rows, HEAD_SIZE_PADDED], zero beyond HEAD_SIZE
    last_visible,  # [rows]: the last position that each row sees
    first,  # the rows attend to positions [first, end)
    seen_from,  # every row sees the positions of [seen_from, seen_by_all)
    seen_by_all,
    end,
    scale,  # factor of the scores, including log2(e)
    key_cache,  # [num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_SIZE], and `value_cache` like it
    value_cache,
    block_table,  # [max_blocks], the sequence's row
    kv_head,
    stride_block,
    stride_slot,
    stride_head,
    BLOCK_SIZE: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_SIZE_PADDED: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    WINDOW: tl.constexpr,
):
    """Attend from rows to a range of keys.

    Returns acc [ROWS, HEAD_SIZE_PADDED], running_max and running_sum [ROWS]. The loop in the middle
    needs no masks, because every row sees the whole of its tiles. For a row that sees no position,
    running_sum is 0.
    """
    # Finite, not -inf: for a row that sees nothing, -inf - -inf would be NaN.
    running_max = tl.full([ROWS], -1.0e38, tl.float32)
    running_sum = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, HEAD_SIZE_PADDED], tl.float32)
    if WINDOW > 0:
        begin = first
        first += tl.cdiv(tl.maximum(seen_from - first, 0), TILE) * TILE
        for tile_start in tl.range(begin, tl.minimum(first, end), TILE, num_stages=1):
            acc, running_max, running_sum = attend_tile(
                q, acc, running_max, running_sum, last_visible, tile_start, end, scale, key_cache,
                value_cache, block_table, kv_head, stride_block, stride_slot, stride_head,
                BLOCK_SIZE, HEAD_SIZE, HEAD_SIZE_PADDED, TILE, WINDOW, False,
            )  # fmt: skip
    full_end = first + tl.maximum(seen_by_all - first, 0) // TILE * TILE
    for tile_start in range(first, full_end, TILE):
        acc, running_max, running_sum = attend_tile(
            q, acc, running_max, running_sum, last_visible, tile_start, end, scale, key_cache,
            value_cache, block_table, kv_head, stride_block, stride_slot, stride_head,
            BLOCK_SIZE, HEAD_SIZE, HEAD_SIZE_PADDED, TILE, WINDOW, True,
        )  # fmt: skip
    # This loop usually has a single tile, so a pipeline would only cost registers.
    for tile_start in tl.range(full_end, end, TILE, num_stages=1):
        acc, running_max, running_sum = attend_tile(
            q, acc, running_max, running_sum, last_visible, tile_start, end, scale, key_cache,
            value_cache, block_table, kv_head, stride_block, stride_slot, stride_head,
            BLOCK_SIZE, HEAD_SIZE, HEAD_SIZE_PADDED, TILE, WINDOW, False,
        )  # fmt: skip
    return acc, running_max, running_sum
