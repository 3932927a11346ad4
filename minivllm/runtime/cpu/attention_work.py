"""Cuts a step's attention into pieces of work for the kernel of `kernels/cpu/attention.c`, once a
step for all layers.

A *stretch* is a number of rows with tokens that they look at: a prefix that several sequences share
(each row sees all of it), or what a sequence has after the prefixes it shares (each row sees one
token more than the row before it). A stretch is cut into *parts* of at most 16 lanes, a lane being
one query head of one row, and each part is one piece of work for each key head.

A row whose context is cut into several stretches goes through them from left to right, level by
level, and the kernel takes its softmax up where it stopped. Easy to get wrong: where stretches are
cut. The kernel takes 16 tokens at a time, counted from the first one of the context, and what is
rounded when depends on that; so a shared prefix is cut where 16 tokens end, and a row's result does
not depend on whom it shares with. Only a single row with up to four heads for a key head is worked
on in another way (`is_decode`), and may get another last bit than as a part of a chunk or of a
shared prefix.
"""

from dataclasses import dataclass

import numpy as np

from minivllm.runtime.attention.prefix_groups import find_prefix_groups
from minivllm.runtime.input_batch import CommonAttentionMetadata

NUM_LANES = 16
NUM_TOKENS_AT_ONCE = 16


def _int64s(*names: str) -> np.dtype:
    return np.dtype([(name, np.int64) for name in names])


PART = _int64s(
    "first_entry",
    "first_pair",
    "num_pairs",
    "table",
    "begin",
    "limit",
    "grows",
    "is_last",
    "is_decode",
)
"""`struct part` of the kernel, which says what the fields are."""
STRETCH = _int64s(
    "level", "num_rows", "first_entry", "table", "begin", "limit", "grows", "is_last", "is_decode"
)


@dataclass(slots=True)
class AttentionWork:
    """What `CpuOps.attend` does in each layer of a step; all int64."""

    parts: np.ndarray
    """[num_parts] of `PART`, level by level, the longest first."""
    level_ends: np.ndarray
    """[num_levels]: parts[: level_ends[i]] must be done before a part of level i + 1 begins."""
    rows: np.ndarray
    """[...] rows of the batch; a part's rows are neighbours in here."""
    block_tables: np.ndarray
    """[num_seqs, max_blocks]"""


def cut_into_parts(common: CommonAttentionMetadata, block_size: int, group: int) -> AttentionWork:
    """The work of one step.

    block_size: tokens in a block of the cache; group: query heads that share a key head
    """
    first_rows, lengths = common.query_start_loc[:-1], np.diff(common.query_start_loc)
    num_seqs, width = common.block_tables.shape
    seqs = np.arange(num_seqs)
    starts = common.num_computed_tokens
    begins, levels = np.zeros(num_seqs, dtype=np.int64), np.zeros(num_seqs, dtype=np.int64)
    rows = [np.arange(common.query_start_loc[-1])]
    shared = []  # a `STRETCH` each
    num_entries = len(rows[0])
    for prefix in find_prefix_groups(common.block_tables, starts // block_size, block_size)[0]:
        first = prefix.members[0]
        begin, end = (
            begins[first],
            prefix.end_block * block_size // NUM_TOKENS_AT_ONCE * NUM_TOKENS_AT_ONCE,
        )
        if begin == end:
            continue
        rows += [np.arange(first_rows[i], first_rows[i] + lengths[i]) for i in prefix.members]
        num_rows = lengths[prefix.members].sum()
        # All of its rows see the same tokens, and have more to come.
        shared.append(
            (levels[first], num_rows, num_entries, first * width, begin, end, 0, False, False)
        )
        num_entries += num_rows
        begins[prefix.members] = end
        levels[prefix.members] += 1

    own = np.empty(num_seqs, STRETCH)
    own["level"], own["num_rows"], own["first_entry"], own["table"] = (
        levels,
        lengths,
        first_rows,
        seqs * width,
    )
    own["begin"], own["limit"], own["grows"] = begins, starts + 1, 1
    own["is_last"], own["is_decode"] = True, lengths == 1

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
    num_tokens = parts["limit"] + parts["grows"] * (parts["first_pair"] // group) - parts["begin"]
    return AttentionWork(
        parts=parts[np.lexsort((-num_tokens, level))],
        level_ends=np.cumsum(np.bincount(level)),
        rows=np.concatenate(rows),
        block_tables=np.ascontiguousarray(common.block_tables, dtype=np.int64),
    )
