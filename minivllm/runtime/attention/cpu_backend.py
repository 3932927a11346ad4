"""The attention backend `cpu`: C kernels that read the KV cache in place.

Once per layer, one kernel rotates queries and keys and writes keys and values into the cache; a
second kernel attends. Chunks, decodes and shared prefixes all take this path. Once per step,
`cut_into_parts` cuts the work for the second kernel:

    tokens   0            128            ada and ben share a prefix of 128 tokens
    ada      [ stretch 0 ][ stretch 1 ]  1 row: a decode
    ben      [  (shared) ][ stretch 2 ]  3 rows: a chunk; each next row sees one token more
    cleo     [ stretch 3 ]               1 row: a decode
              level 0      level 1

    stretch   rows and the tokens that they read: a shared prefix, or the rest of one sequence
    lane      one row and one of the query heads that share a key head
    part      up to 16 lanes of a stretch; one task for each key head
    level     parts that can run at the same time; a row's softmax continues on the next level

With 4 query heads per key head, stretch 0 has 4 rows * 4 = 16 lanes for each key head: one part.

The kernel reads tiles of 16 tokens, counted from the start of the context, and its rounding depends
on these tiles. So a shared prefix is rounded down to a multiple of 16, and a row's result does not
depend on sharing, with one exception: a decode row with up to four query heads per key head takes
another path in the kernel (`is_decode`), which can round the last bit differently.

With a sliding window, no stretch is shared, and a part starts at the tile where the window of its
first row starts. Layers with and without a window have their own cut.

A chunk reads its own keys and values from the cache too. A token marked `NOT_WRITTEN` is already in
the cache, or another sequence of the step writes it.
"""

from dataclasses import dataclass

import numpy as np
import torch

from minivllm.errors import ConfigError
from minivllm.kernels.cpu.ops import why_unsupported
from minivllm.runtime.attention.prefix_groups import find_prefix_groups
from minivllm.runtime.attention.torch_backend import TorchAttentionBackend
from minivllm.runtime.cpu.load import load_cpu_ops, why_no_kernels
from minivllm.runtime.input_batch import CommonAttentionMetadata
from minivllm.runtime.kv_cache import KVCacheSpec

NUM_LANES = 16
NUM_TOKENS_AT_ONCE = 16
NO_WINDOW = 1 << 40
"""More tokens than any context has."""


def _int64s(*names: str) -> np.dtype:
    return np.dtype([(name, np.int64) for name in names])


PART = _int64s(
    "first_entry",  # the stretch's first entry in `AttentionWork.rows`
    "first_pair",  # pairs of a row and a query head, counted from the stretch's first row
    "num_pairs",  # at most 16; the kernel's lanes
    "table",  # start of the block table, in the flattened `AttentionWork.block_tables`
    "begin",  # start of the first tile of 16 tokens
    "first",  # first token to read: after `begin` where a window starts in a tile
    "window",  # how many tokens a row sees, at most
    "continues",  # whether the rows have an earlier part
    "limit",  # number of tokens that the stretch's first row sees, from the context's start
    "grows",  # how many more tokens each row sees than the row before: 0 or 1
    "is_last",  # whether this is the last part of its rows
    "is_decode",  # whether this is the last part of a single row
)
"""The fields of `struct part` in attention.c."""
STRETCH = _int64s(
    "level", "num_rows", "first_entry", "table", "begin", "limit", "grows", "is_last", "is_decode"
)


@dataclass(slots=True)
class AttentionWork:
    """The input of `CpuOps.attend` for all layers of a step; all arrays are int64."""

    parts: np.ndarray
    """[num_parts] of `PART`, level by level, longest first within a level."""
    level_ends: np.ndarray
    """[num_levels]: parts[: level_ends[i]] must be done before any part of level i + 1 starts."""
    rows: np.ndarray
    """[num_entries]: rows of the batch, stretch by stretch; here, a part's rows are neighbours."""
    block_tables: np.ndarray
    """[num_seqs, max_blocks]"""


@dataclass(slots=True)
class CpuAttentionMetadata:
    slots: torch.Tensor
    """[num_tokens]: the cache slot of each token, or `NOT_WRITTEN`"""
    work: dict[int, tuple[torch.Tensor, ...]]
    """Window -> the fields of `AttentionWork`, then two workspaces of [num_tokens, num_heads]"""


class CpuAttentionBackend(TorchAttentionBackend):
    """Owns the KV cache of all layers and attends over it with the C kernels."""

    def __init__(
        self, spec: KVCacheSpec, num_blocks: int, device: torch.device, num_heads: int
    ) -> None:
        super().__init__(spec, num_blocks, device)
        self._num_heads = num_heads
        self._ops = load_cpu_ops()

    @staticmethod
    def check_support(spec: KVCacheSpec, device: torch.device) -> None:
        """Raise `ConfigError` if the backend does not support `device` or the head size."""
        if device.type != "cpu":
            why = f"the device is {device.type}."
        else:
            why = why_unsupported(spec.dtype, spec.head_size) or why_no_kernels()
        if why is not None:
            raise ConfigError(
                f"attention_backend cpu cannot run here: {why} Use attention_backend='torch'."
            )

    def build(self, common: CommonAttentionMetadata) -> CpuAttentionMetadata:
        group = self._num_heads // self._spec.num_kv_heads
        workspace = torch.empty(2, len(common.slot_mapping), self._num_heads, dtype=torch.float32)
        works = {}
        for window in set(self._windows):
            work = cut_into_parts(common, self._spec.block_size, group, window)
            tensors = (work.parts.view(np.int64), work.level_ends, work.rows, work.block_tables)
            works[window] = (*map(torch.from_numpy, tensors), *workspace)
        return CpuAttentionMetadata(torch.from_numpy(common.slot_mapping), works)

    def forward(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cos_sin: tuple[torch.Tensor, torch.Tensor],
        metadata: CpuAttentionMetadata,
    ) -> torch.Tensor:
        cache = self.kv_caches[layer]
        self._ops.rotary_and_cache(query, key, value, cos_sin, cache, metadata.slots)
        output = query.new_empty(query.shape)  # contiguous, even if the query is not
        work = metadata.work[self._windows[layer]]
        self._ops.attend(query, cache, *work, output, self._spec.num_kv_heads, self._scale)
        return output


def cut_into_parts(
    common: CommonAttentionMetadata, block_size: int, group: int, window: int = 0
) -> AttentionWork:
    """Cut the attention of one step.

    block_size: tokens per block of the cache; group: number of query heads that share a key head
    window: how many tokens a row sees; 0 for all
    """
    first_rows, lengths = common.query_start_loc[:-1], np.diff(common.query_start_loc)
    num_seqs, width = common.block_tables.shape
    starts = common.num_computed_tokens
    begins, levels = np.zeros((2, num_seqs), dtype=np.int64)
    rows = [np.arange(common.query_start_loc[-1])]
    num_entries, shared = len(rows[0]), []  # shared: one `STRETCH` each
    prefixes = []
    if num_seqs > 1 and not window:
        prefixes, _ = find_prefix_groups(common.block_tables, starts // block_size, block_size)
    for prefix in prefixes:
        first = prefix.members[0]
        begin = begins[first]
        end = prefix.end_block * block_size // NUM_TOKENS_AT_ONCE * NUM_TOKENS_AT_ONCE
        if begin == end:
            continue
        rows += [np.arange(first_rows[i], first_rows[i] + lengths[i]) for i in prefix.members]
        num_rows = lengths[prefix.members].sum()
        # All rows see the same tokens, and all have a later stretch.
        ends = (begin, end, 0, False, False)
        shared.append((levels[first], num_rows, num_entries, first * width, *ends))
        num_entries += num_rows
        begins[prefix.members] = end
        levels[prefix.members] += 1

    own = np.empty(num_seqs, STRETCH)
    own["level"], own["num_rows"], own["first_entry"] = levels, lengths, first_rows
    own["table"], own["begin"], own["limit"] = np.arange(num_seqs) * width, begins, starts + 1
    own["grows"], own["is_last"], own["is_decode"] = 1, True, lengths == 1

    stretches = np.concatenate((np.array(shared, dtype=STRETCH), own))
    num_pairs = stretches["num_rows"] * group
    num_parts = -(-num_pairs // NUM_LANES)
    of = np.repeat(np.arange(len(stretches)), num_parts)  # the stretch of each part
    parts = np.empty(len(of), PART)
    for name in set(PART.names) & set(STRETCH.names):
        parts[name] = stretches[name][of]
    parts["first_pair"] = (np.arange(len(of)) - (np.cumsum(num_parts) - num_parts)[of]) * NUM_LANES
    parts["num_pairs"] = np.minimum(num_pairs[of] - parts["first_pair"], NUM_LANES)
    level = stretches["level"][of]
    # How many tokens the first row of each part sees, from the context's start.
    limit = parts["limit"] + parts["grows"] * (parts["first_pair"] // group)
    parts["window"], parts["continues"] = window or NO_WINDOW, parts["begin"] > 0
    parts["first"] = np.maximum(parts["begin"], limit - parts["window"])
    parts["begin"] = parts["first"] // NUM_TOKENS_AT_ONCE * NUM_TOKENS_AT_ONCE
    num_tokens = limit - parts["begin"]
    return AttentionWork(
        parts=parts[np.lexsort((-num_tokens, level))],
        level_ends=np.cumsum(np.bincount(level)),
        rows=np.concatenate(rows),
        block_tables=np.ascontiguousarray(common.block_tables, dtype=np.int64),
    )
