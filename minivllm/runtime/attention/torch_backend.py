"""The attention backend `torch`: paged attention with PyTorch operations, on CPU and CUDA.

PyTorch has no operation that reads through a block table, so contexts are gathered first. For each
layer:

    rotate    queries and keys, by the angles of their positions
    write     keys and values of all tokens to their slots
    chunks    the tokens of a prefill chunk attend to each other, causally, from this step's k and v
    decodes   sequences with one new token attend to their gathered context, in buckets of similar
              length
    spans     earlier context that several queries see in full: a shared prefix (`prefix_groups`),
              or the tokens before a chunk; `partial` merges the result into the results above

In a layer with a sliding window, a chunk attends to its gathered context through a mask. No block
before the window is gathered.

Slots after a sequence's end can hold NaN from another request. A mask is not enough, because 0 *
NaN is NaN, so gathered tokens after the end are set to zero.

Cache layout, one tensor per layer: [num_blocks, block_size, 2 * num_kv_heads, head_size], first the
keys, then the values. A block is contiguous, so gathering runs at the speed of memory; separate
blocks for each head would halve the speed. A head's tokens have a constant stride, so the
operations need no copy. With int8, a token's row is 2 * num_kv_heads * (head_size + 4) bytes: the
numbers, then a float32 scale for each key and value, so copying a block copies its scales.

If the cache stores another dtype (int8 or bfloat16), all attention reads keys and values *as
stored*, those of its own step too. With the exact ones, a token's numbers would depend on the chunk
that computed it. Source: vLLM's `int8_per_token_head`.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import torch

from minivllm.config import SCALE_BYTES
from minivllm.core.scheduler_output import BlockCopy
from minivllm.kernels.reference_ops import dequantize_heads, quantize_heads, rotate
from minivllm.runtime.attention.partial import Rows, attend, merge
from minivllm.runtime.attention.prefix_groups import find_prefix_groups
from minivllm.runtime.input_batch import NOT_WRITTEN, CommonAttentionMetadata
from minivllm.runtime.kv_cache import KVCacheSpec

MAX_PADDING_TOKENS = 256
"""In a bucket of decodes; reading more would take longer than one more bucket."""
MAX_BUCKET_TOKENS = 8192
"""Gathered at once, to bound the workspace; a longer sequence gets its own bucket."""


@dataclass(slots=True)
class DecodeBucket:
    """Sequences with one query each, padded to equally many blocks; or a chunk in a window."""

    rows: Rows
    block_ids: torch.Tensor
    """[num_seqs * num_blocks]"""
    padding: torch.Tensor
    """[num_padding] indices into [num_seqs * num_tokens]: gathered tokens that no query sees"""
    mask: torch.Tensor
    """[num_seqs, 1, num_queries, num_tokens]: 0, or -inf on what a query does not see."""


@dataclass(slots=True)
class SharedContext:
    """Context that all of `rows` see in full."""

    rows: Rows
    block_ids: torch.Tensor
    """[num_blocks]"""
    num_tokens: int
    """How many tokens of the gathered blocks belong to the context; the others are cut off."""


@dataclass(slots=True)
class TorchAttentionMetadata:
    written_rows: torch.Tensor | None
    """[num_written] rows of the batch; None means all rows."""
    written_slots: torch.Tensor
    """[num_written]"""
    chunks: list[slice]
    """The rows of each prefill chunk, which attend to each other."""
    decodes: list[DecodeBucket]
    spans: list[SharedContext]
    windowed_chunks: list[DecodeBucket] = field(default_factory=list)
    """In a layer with a window, these take the place of `chunks`."""
    of_window: dict[int, "TorchAttentionMetadata"] = field(default_factory=dict)
    """Window -> the metadata of the layers that have it."""


def as_rows(rows: np.ndarray, device: torch.device) -> Rows:
    """Return a slice for rows that are neighbours."""
    first, last = int(rows[0]), int(rows[-1])
    if last - first + 1 == len(rows):
        return slice(first, last + 1)
    return torch.from_numpy(rows).to(device, non_blocking=True)


class TorchAttentionBackend:
    """Owns the KV cache of all layers and attends over it."""

    def __init__(self, spec: KVCacheSpec, num_blocks: int, device: torch.device) -> None:
        self._spec, self._device, self._windows = spec, device, spec.windows
        self._scale = spec.head_size**-0.5
        self._has_scales, self._stored_dtype = spec.has_scales, spec.stored_dtype
        row = num_heads, head_size = 2 * spec.num_kv_heads, spec.head_size
        if spec.has_scales:
            row = (num_heads * (head_size + SCALE_BYTES),)
        shape = (num_blocks, spec.block_size, *row)
        # Zeros cost nothing on a CPU: the system allocates pages at the first write.
        self.kv_caches = [
            torch.zeros(shape, dtype=spec.stored_dtype, device=device)
            for _ in range(spec.num_layers)
        ]
        self._workspace = self.kv_caches[0].new_empty(0)

    def attention_mass(
        self, layer: int, query: torch.Tensor, block_tables: torch.Tensor, seq_lens: torch.Tensor
    ) -> torch.Tensor:
        """See `AttentionBackend.attention_mass`; a few operations per sequence."""
        block_size, (num_seqs, num_heads, _) = self._spec.block_size, query.shape
        mass = torch.zeros(num_seqs, num_heads, block_tables.shape[1], device=query.device)
        for i, seq_len in enumerate(seq_lens.tolist()):
            num_blocks = -(-seq_len // block_size)
            keys, _ = self.read_blocks(layer, block_tables[i, :num_blocks].tolist())
            window = self._windows[layer]
            weights = attention_weights(query[i], keys, seq_len, self._scale, window)
            padded = torch.nn.functional.pad(weights, (0, num_blocks * block_size - seq_len))
            mass[i, :, :num_blocks] = padded.view(num_heads, num_blocks, block_size).sum(-1)
        return mass

    def read_blocks(self, layer: int, block_ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """See `AttentionBackend.read_blocks`."""
        blocks = self._from_stored(self.kv_caches[layer][block_ids])
        return blocks.split(self._spec.num_kv_heads, dim=2)

    # ---- once a step ----

    def copy_blocks(self, copies: list[BlockCopy]) -> None:
        """See `AttentionBackend.copy_blocks`."""
        # [num_copies] each
        src, dst = torch.tensor(copies, dtype=torch.int64, device=self._device).T
        for cache in self.kv_caches:
            cache[dst] = cache[src]

    def build(self, common: CommonAttentionMetadata) -> TorchAttentionMetadata:
        """Group the step's sequences into chunks, buckets and spans."""
        starts, block_size = common.num_computed_tokens, self._spec.block_size
        first_rows, lengths = common.query_start_loc[:-1], np.diff(common.query_start_loc)
        groups, num_covered = [], np.zeros(len(starts), dtype=np.int64)
        if len(starts) > 1:
            num_whole = starts // block_size
            groups, num_covered = find_prefix_groups(common.block_tables, num_whole, block_size)
        spans = []
        for group in groups:
            rows = np.concatenate(
                [np.arange(first_rows[i], first_rows[i] + lengths[i]) for i in group.members]
            )
            blocks = common.block_tables[group.members[0], group.first_block : group.end_block]
            rows = as_rows(rows, self._device)
            spans.append(SharedContext(rows, self._tensor(blocks), len(blocks) * block_size))

        chunks = []
        for i in np.flatnonzero(lengths > 1):
            rows = slice(int(first_rows[i]), int(first_rows[i] + lengths[i]))
            chunks.append(rows)
            num_before = int(starts[i] - num_covered[i] * block_size)
            if num_before:
                blocks = common.block_tables[i, num_covered[i] : -(-starts[i] // block_size)]
                spans.append(SharedContext(rows, self._tensor(blocks), num_before))

        is_written = common.slot_mapping != NOT_WRITTEN
        metadata = TorchAttentionMetadata(
            written_rows=None if is_written.all() else self._tensor(np.flatnonzero(is_written)),
            written_slots=self._tensor(common.slot_mapping[is_written]),
            chunks=chunks,
            decodes=self._decode_buckets(common, np.flatnonzero(lengths == 1), num_covered),
            spans=spans,
        )
        for window in set(self._windows) - {0}:
            metadata.of_window[window] = self._in_window(window, common, metadata)
        return metadata

    def _in_window(
        self, window: int, common: CommonAttentionMetadata, metadata: TorchAttentionMetadata
    ) -> TorchAttentionMetadata:
        block_size, starts = self._spec.block_size, common.num_computed_tokens
        lengths = np.diff(common.query_start_loc)
        num_before = np.maximum(starts + 1 - window, 0) // block_size  # blocks before the window
        chunks = []
        for i, rows in zip(np.flatnonzero(lengths > 1), metadata.chunks, strict=True):
            end = starts[i] + lengths[i]
            blocks = common.block_tables[i, num_before[i] : -(-end // block_size)]
            tokens = num_before[i] * block_size + np.arange(len(blocks) * block_size)
            queries = np.arange(starts[i], end)[:, None]
            is_hidden = (tokens > queries) | (tokens <= queries - window)
            chunks.append(self._bucket(rows, blocks, is_hidden[None]))
        buckets = self._decode_buckets(common, np.flatnonzero(lengths == 1), num_before, window)
        return replace(metadata, chunks=[], spans=[], decodes=buckets, windowed_chunks=chunks)

    def _decode_buckets(
        self,
        common: CommonAttentionMetadata,
        members: np.ndarray,
        num_covered: np.ndarray,
        window: int = 0,
    ) -> list[DecodeBucket]:
        """Make buckets for the part of the contexts that no span covers, or that a window shows.

        members: [num_decodes], the sequences with one query
        num_covered: [num_seqs], how many leading blocks of each sequence are left out
        """
        block_size = self._spec.block_size
        num_tokens = common.num_computed_tokens[members] + 1 - num_covered[members] * block_size
        buckets = []
        for bucket in _similar_lengths(num_tokens):
            width = -(-int(num_tokens[bucket].max()) // block_size)
            seqs, tokens = members[bucket], num_tokens[bucket]
            # Pad a short sequence's row with its own first block; the mask hides the padding.
            columns = np.arange(width)
            columns = np.where(columns * block_size < tokens[:, None], columns, 0)
            # [num_seqs, width]
            blocks = common.block_tables[seqs[:, None], columns + num_covered[seqs, None]]
            # [num_seqs, width * block_size]
            gathered = np.arange(width * block_size)
            is_hidden = gathered >= tokens[:, None]
            if window:
                is_hidden |= gathered < tokens[:, None] - window
            rows = as_rows(common.query_start_loc[seqs], self._device)
            buckets.append(self._bucket(rows, blocks, is_hidden[:, None]))
        return buckets

    def _bucket(self, rows: Rows, blocks: np.ndarray, is_hidden: np.ndarray) -> DecodeBucket:
        """is_hidden: [num_seqs, num_queries, num_tokens]"""
        mask = torch.zeros(is_hidden.shape, dtype=self._spec.dtype)
        mask.masked_fill_(torch.from_numpy(is_hidden), float("-inf"))
        padding = self._tensor(np.flatnonzero(is_hidden.all(axis=1)))
        mask = mask[:, None].to(self._device)
        return DecodeBucket(rows, self._tensor(blocks.reshape(-1)), padding, mask)

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self._device)

    # ---- once a layer ----

    def forward(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cos_sin: tuple[torch.Tensor, torch.Tensor],
        metadata: TorchAttentionMetadata,
    ) -> torch.Tensor:
        cache = self.kv_caches[layer]
        # Rotate queries and keys together, which takes half as many operations.
        rotated = rotate(torch.cat((query, key), dim=1), *cos_sin)
        query, key = rotated.split((query.shape[1], key.shape[1]), dim=1)
        self._write(cache, key, value, metadata)
        if window := self._windows[layer]:
            metadata = metadata.of_window[window]
        if metadata.chunks and self._stored_dtype != self._spec.dtype:
            read = self._from_stored(self._to_stored(torch.cat((key, value), dim=1)))
            key, value = read.split(key.shape[1], dim=1)
        output = torch.empty_like(query)  # [num_tokens, num_heads, head_size]
        # [num_tokens, num_heads]
        log_sum_exp = query.new_empty(query.shape[:2], dtype=torch.float32)
        for rows in metadata.chunks:
            # Heads first, and a batch dimension of 1: [1, num_heads, num_tokens, head_size].
            q, k, v = (x[rows].transpose(0, 1).unsqueeze(0) for x in (query, key, value))
            out, lse = attend(q, k, v, self._scale, is_causal=True)
            output[rows], log_sum_exp[rows] = out[0].transpose(0, 1), lse[0].T
        for chunk in metadata.windowed_chunks:
            q = query[chunk.rows].transpose(0, 1).unsqueeze(0)
            k, v = self._read(cache, chunk.block_ids, 1, chunk.padding)
            output[chunk.rows] = attend(q, k, v, self._scale, mask=chunk.mask)[0][0].transpose(0, 1)
        self._attend_decodes(cache, query, metadata, output, log_sum_exp)
        self._attend_spans(cache, query, metadata, output, log_sum_exp)
        return output

    def _attend_decodes(
        self,
        cache: torch.Tensor,
        query: torch.Tensor,
        metadata: TorchAttentionMetadata,
        output: torch.Tensor,
        log_sum_exp: torch.Tensor,
    ) -> None:
        """Write the output rows of sequences with one query, for the context outside the spans.

        output: [num_tokens, num_heads, head_size]; log_sum_exp: [num_tokens, num_heads]
        """
        for bucket in metadata.decodes:
            # One batch entry per sequence: [num_seqs, num_heads, 1, head_size].
            k, v = self._read(cache, bucket.block_ids, len(bucket.mask), bucket.padding)
            out, lse = attend(query[bucket.rows].unsqueeze(2), k, v, self._scale, mask=bucket.mask)
            output[bucket.rows], log_sum_exp[bucket.rows] = out.squeeze(2), lse.squeeze(2)

    def _attend_spans(
        self,
        cache: torch.Tensor,
        query: torch.Tensor,
        metadata: TorchAttentionMetadata,
        output: torch.Tensor,
        log_sum_exp: torch.Tensor,
    ) -> None:
        """Attend to the spans and merge the results into the rows' output and log_sum_exp."""
        for span in metadata.spans:
            q = query[span.rows].transpose(0, 1).unsqueeze(0)
            k, v = (
                x[:, :, : span.num_tokens] for x in self._read(cache, span.block_ids, num_seqs=1)
            )
            out, lse = attend(q, k, v, self._scale)
            merge(output, log_sum_exp, span.rows, out[0].transpose(0, 1), lse[0].T)

    def _write(
        self,
        cache: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        metadata: TorchAttentionMetadata,
    ) -> None:
        """Write this step's keys and values to their slots, in place."""
        rows = self._to_stored(torch.cat((key, value), dim=1))
        if metadata.written_rows is not None:
            rows = rows[metadata.written_rows]
        cache.flatten(0, 1).index_copy_(0, metadata.written_slots, rows)

    def _read(
        self,
        cache: torch.Tensor,
        block_ids: torch.Tensor,
        num_seqs: int,
        padding: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Gather keys and values of blocks, each [num_seqs, num_kv_heads, num_tokens, head_size].

        padding: indices of gathered tokens to set to zero

        The result is valid until the next call: all calls share a workspace, because mapping new
        memory takes longer than filling it.
        """
        blocks = cache.flatten(1)  # [num_blocks, numbers of a block]
        size = len(block_ids) * blocks.shape[1]
        if self._workspace.numel() < size:
            self._workspace = cache.new_empty(size)
        gathered = self._workspace[:size].view(len(block_ids), -1)
        torch.index_select(blocks, 0, block_ids, out=gathered)
        tokens = self._from_stored(gathered.view(-1, *cache.shape[2:]))
        if padding is not None:
            tokens.index_fill_(0, padding, 0.0)
        by_head = tokens.view(num_seqs, -1, *tokens.shape[1:]).transpose(1, 2)
        return by_head[:, : self._spec.num_kv_heads], by_head[:, self._spec.num_kv_heads :]

    def _to_stored(self, heads: torch.Tensor) -> torch.Tensor:
        """[num_tokens, 2 * num_kv_heads, head_size] -> rows of the cache."""
        if not self._has_scales:
            return heads.to(self._stored_dtype)
        numbers, scales = quantize_heads(heads)
        return torch.cat((numbers.flatten(1), scales.view(torch.int8)), dim=1)

    def _from_stored(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows of the cache -> [..., 2 * num_kv_heads, head_size] in the model's dtype."""
        if not self._has_scales:
            return rows.to(self._spec.dtype)
        shape = (2 * self._spec.num_kv_heads, self._spec.head_size)
        num_numbers = shape[0] * shape[1]
        numbers, scales = rows.split((num_numbers, rows.shape[-1] - num_numbers), -1)
        heads = dequantize_heads(numbers.unflatten(-1, shape), scales.view(torch.float32))
        return heads.to(self._spec.dtype)


def _similar_lengths(lengths: np.ndarray) -> list[np.ndarray]:
    """Split the indices of `lengths` into buckets within the limits above, longest first."""
    buckets: list[list[int]] = []
    padding = 0
    for index in np.argsort(-lengths, kind="stable").tolist():
        if buckets:
            longest = int(lengths[buckets[-1][0]])
            padding += longest - int(lengths[index])
            size = (len(buckets[-1]) + 1) * longest
            if padding <= MAX_PADDING_TOKENS and size <= MAX_BUCKET_TOKENS:
                buckets[-1].append(index)
                continue
        buckets.append([index])
        padding = 0
    # Keep batch order within a bucket, so that its rows can be a slice.
    return [np.sort(bucket) for bucket in buckets]


def attention_weights(
    query: torch.Tensor, blocks: torch.Tensor, seq_len: int, scale: float, window: int = 0
) -> torch.Tensor:
    """Return the softmax of one token's scores: [num_heads, seq_len] in float32.

    query: [num_heads, head_size]
    blocks: [num_blocks, block_size, num_kv_heads, head_size], the keys of `seq_len` tokens in order
    window: how many tokens the token sees, itself included; 0 for all; the others get 0
    """
    keys = blocks.flatten(0, 1)[:seq_len].float()
    # neighbouring query heads share a key head
    q = query.float().view(keys.shape[1], query.shape[0] // keys.shape[1], -1)
    scores = torch.einsum("kgd,tkd->kgt", q, keys) * scale
    if window:
        scores[..., :-window] = float("-inf")
    return torch.softmax(scores, dim=-1).flatten(0, 1)
