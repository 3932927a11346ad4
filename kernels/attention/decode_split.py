"""Decode attention, kernel version 3: several programs share one context (split-KV).

Softmax attention is a weighted mean, so programs can compute parts of a context separately. Each
part also returns its log-sum-exp (base 2), and a second kernel merges the parts. One sequence of
100,000 tokens then keeps a whole GPU busy. With one split, version 2 does the work.

`choose_num_splits` aims at a few programs per multiprocessor, with at most `MAX_SPLITS` parts; in
the longest context no part averages under `MIN_TOKENS_PER_SPLIT` tokens. The number of splits is a
power of two because `tl.arange` needs one. Both kernels are compiled for each number.

A short sequence can have fewer tiles than splits; the reduction skips the empty splits.

Source: FlashDecoding (Dao et al., 2023); vLLM `triton_unified_attention.py` (`reduce_segments`).
"""

from dataclasses import dataclass

import torch

from minivllm.kernels.attention.decode_grouped import decode_grouped, load_group
from minivllm.kernels.attention.online_softmax import (
    LOG2_E,
    attend_rows,
    padded_head_size,
    wide_enough,
)
from minivllm.kernels.launch_table import (
    MAX_SPLITS,
    MIN_TOKENS_PER_SPLIT,
    PROGRAMS_PER_PROCESSOR,
    decode_launch,
)
from minivllm.kernels.mode import tl, triton

DEFAULT_NUM_PROCESSORS = 132
"""Multiprocessors of an H100 or H200."""


def num_processors_of(device: torch.device) -> int:
    """Return the number of multiprocessors; for a CPU (interpreted kernels), that of an H100."""
    if device.type != "cuda":
        return DEFAULT_NUM_PROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count


def choose_num_splits(
    num_seqs: int, num_kv_heads: int, max_seq_len: int, num_processors: int = DEFAULT_NUM_PROCESSORS
) -> int:
    """Choose the number of parts for each context; `max_seq_len` is the longest context."""
    wanted = PROGRAMS_PER_PROCESSOR * num_processors // max(1, num_seqs * num_kv_heads)
    most = min(wanted, max_seq_len // MIN_TOKENS_PER_SPLIT, MAX_SPLITS)
    return 1 << (max(most, 1).bit_length() - 1)  # largest power of two <= most


@dataclass(frozen=True, slots=True)
class SplitWorkspace:
    """The results of the splits, which the reduction reads."""

    out: torch.Tensor
    """[num_seqs, num_heads, num_splits, head_size] float32: each part's attention."""
    lse: torch.Tensor
    """[num_seqs, num_heads, num_splits] float32: each part's log-sum-exp, base 2."""

    @classmethod
    def empty(cls, query: torch.Tensor, num_splits: int) -> "SplitWorkspace":
        """Allocate for query: [num_seqs, num_heads, head_size]."""
        num_seqs, num_heads, head_size = query.shape
        shape = (num_seqs, num_heads, num_splits)
        return cls(
            query.new_empty(*shape, head_size, dtype=torch.float32),
            query.new_empty(shape, dtype=torch.float32),
        )


def reduce_warps(num_splits: int, head_size: int) -> int:
    """Number of warps that hold all parts of a head, with at most 128 numbers per thread."""
    return max(2, num_splits * padded_head_size(head_size) // (32 * 128))


@triton.jit
def tiles_per_split(seq_len, num_splits, TILE: tl.constexpr):
    """Number of tiles per split, at least 1; a sequence's last splits can have fewer or none."""
    return tl.maximum(tl.cdiv(tl.cdiv(seq_len, TILE), num_splits), 1)


# Block tables have many widths; one compilation serves all of them.
@triton.jit(do_not_specialize=["table_stride"])
def decode_split_kernel(
    query,  # [num_seqs, num_heads, HEAD_SIZE]
    part_out,  # [num_seqs, num_heads, num_splits, HEAD_SIZE] contiguous
    part_lse,  # [num_seqs, num_heads, num_splits] contiguous
    key_cache,  # [num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_SIZE]
    value_cache,  # the same shape
    block_tables,  # [num_seqs, max_blocks]
    seq_lens,  # [num_seqs]
    scale,
    query_stride_seq,
    query_stride_head,
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
    """Program (sequence, key head, split)."""
    seq, kv_head, split = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    seq_len = tl.load(seq_lens + seq)
    num_visible = tl.minimum(seq_len, WINDOW) if WINDOW > 0 else seq_len
    num_tokens = tiles_per_split(num_visible, NUM_SPLITS, TILE) * TILE
    first = seq_len - num_visible + split * num_tokens
    end = tl.minimum(first + num_tokens, seq_len)
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
        acc, running_max, running_sum = attend_rows(
            q,
            tl.full([ROWS], 0, tl.int32) + (seq_len - 1),
            first,
            first,
            end,
            end,
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
        rows, dims = tl.arange(0, ROWS), tl.arange(0, HEAD_SIZE_PADDED)
        num_heads = tl.num_programs(1) * GROUP
        part = (seq * num_heads + kv_head * GROUP + rows) * NUM_SPLITS + split  # [ROWS]
        tl.store(part_lse + part, running_max + tl.log2(running_sum), mask=rows < GROUP)
        pointers = part_out + part[:, None] * HEAD_SIZE + dims[None, :]
        mask = (rows[:, None] < GROUP) & (dims[None, :] < HEAD_SIZE)
        tl.store(pointers, acc / running_sum[:, None], mask=mask)


@triton.jit
def reduce_splits_kernel(
    part_out,  # [num_seqs, num_heads, NUM_SPLITS, HEAD_SIZE] contiguous
    part_lse,  # [num_seqs, num_heads, NUM_SPLITS] contiguous
    out,  # [num_seqs, num_heads, HEAD_SIZE]
    seq_lens,  # [num_seqs]
    out_stride_seq,
    out_stride_head,
    NUM_SPLITS: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_SIZE_PADDED: tl.constexpr,
    TILE: tl.constexpr,
    WINDOW: tl.constexpr,
):
    """Program (sequence, query head): the mean of the parts, weighted by 2^(log-sum-exp)."""
    seq, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    num_visible = tl.load(seq_lens + seq)
    if WINDOW > 0:
        num_visible = tl.minimum(num_visible, WINDOW)
    splits, dims = tl.arange(0, NUM_SPLITS), tl.arange(0, HEAD_SIZE_PADDED)
    was_written = splits * tiles_per_split(num_visible, NUM_SPLITS, TILE) * TILE < num_visible
    part = (seq * tl.num_programs(1) + head) * NUM_SPLITS + splits
    lse = tl.load(part_lse + part, mask=was_written, other=float("-inf"))
    mask = was_written[:, None] & (dims[None, :] < HEAD_SIZE)
    outs = tl.load(part_out + part[:, None] * HEAD_SIZE + dims[None, :], mask=mask, other=0.0)
    # A padded row has no parts. Use a maximum of 0, not -inf, so that its weights are 0, not NaN.
    largest = tl.max(lse, 0)
    weights = tl.exp2(lse - tl.where(largest == float("-inf"), 0.0, largest))
    total = tl.sum(weights, 0)
    mean = tl.sum(weights[:, None] * outs, 0) / tl.where(total > 0.0, total, 1.0)
    pointers = out + seq * out_stride_seq + head * out_stride_head + dims
    tl.store(pointers, mean.to(out.dtype.element_ty), mask=dims < HEAD_SIZE)


def decode_split(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    num_splits: int,
    workspace: SplitWorkspace | None = None,
    out: torch.Tensor | None = None,
    window: int = 0,
) -> torch.Tensor:
    """See `minivllm.kernels.reference.decode_attention`. Writes and returns `out` if given.

    num_splits: a power of two, see `choose_num_splits`
    workspace: for this number of sequences and splits; allocated if not given
    """
    if num_splits == 1:
        return decode_grouped(
            query, key_cache, value_cache, block_tables, seq_lens, scale, out, window
        )
    num_seqs, num_heads, head_size = query.shape
    num_kv_heads = key_cache.shape[2]
    group = num_heads // num_kv_heads
    launch = decode_launch(head_size, query.dtype)
    out = torch.empty_like(query) if out is None else out
    block_tables = wide_enough(block_tables, key_cache)
    workspace = SplitWorkspace.empty(query, num_splits) if workspace is None else workspace
    sizes = {
        "NUM_SPLITS": num_splits,
        "HEAD_SIZE": head_size,
        "HEAD_SIZE_PADDED": padded_head_size(head_size),
        "TILE": launch.tile,
        "WINDOW": window,
    }
    decode_split_kernel[(num_seqs, num_kv_heads, num_splits)](
        query,
        workspace.out,
        workspace.lse,
        key_cache,
        value_cache,
        block_tables,
        seq_lens,
        scale * LOG2_E,
        *query.stride()[:2],
        *key_cache.stride()[:3],
        block_tables.stride(0),
        GROUP=group,
        BLOCK_SIZE=key_cache.shape[1],
        ROWS=launch.rows_of(group),
        **launch.options,
        **sizes,
    )
    reduce_splits_kernel[(num_seqs, num_heads)](
        workspace.out,
        workspace.lse,
        out,
        seq_lens,
        *out.stride()[:2],
        num_warps=reduce_warps(num_splits, head_size),
        **sizes,
    )
    return out
