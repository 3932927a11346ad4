"""Find sequences that share the start of their contexts, so that attention reads it only once.

Sixteen requests with one system prompt start with the same block ids:

    ada   [ 3  4  5 | 9 ]     blocks 3, 4, 5 are one group of two members:
    ben   [ 3  4  5 | 12 7 ]  attend to them once for both queries, then to each one's own blocks

Attending once turns many small memory-bound products into a single large one. The results for a
sequence's two parts are then merged by their log-sum-exp ("cascade attention"). vLLM groups only if
*all* running requests share a prefix. Here the block tables are walked as a tree, so an unrelated
request does no harm, and groups can nest (a system prompt, then a document).

Grouping affects speed only, never the result, as long as causality holds: all of a shared block
must come before the first query of each member. `num_whole_blocks` is that limit.

Source: Hydragen (Juravsky et al., 2024), FlashInfer's cascade attention; vLLM
`use_cascade_attention`.
"""

from dataclasses import dataclass

import numpy as np

MIN_TOKENS_SAVED = 128
"""Minimum number of token reads that a group must save; for fewer, the extra operations cost more
time than they save.
"""


@dataclass(slots=True)
class PrefixGroup:
    """Sequences whose block tables hold the same ids in columns [first_block, end_block)."""

    members: np.ndarray
    """[num_members] int64: rows of the block tables."""
    first_block: int
    end_block: int


def find_prefix_groups(
    block_tables: np.ndarray, num_whole_blocks: np.ndarray, block_size: int
) -> tuple[list[PrefixGroup], np.ndarray]:
    """Group the rows of `block_tables` by equal leading ids.

    block_tables: [num_seqs, max_blocks]
    num_whole_blocks: [num_seqs], how many leading blocks come before all queries of the sequence

    Returns the groups, and [num_seqs]: how many leading blocks of each sequence the groups cover.
    A sequence can be in several groups, which follow one another in its block table.
    """
    groups: list[PrefixGroup] = []
    num_covered = np.zeros(len(block_tables), dtype=np.int64)

    def walk(members: np.ndarray, first_block: int, depth: int) -> None:
        """Group `members`, which share `depth` blocks and are covered up to `first_block`."""
        members = members[num_whole_blocks[members] > depth]
        if len(members) < 2:
            return
        ids = block_tables[members, depth]
        distinct, counts = np.unique(ids, return_counts=True)
        for block_id in distinct[counts > 1]:
            same = members[ids == block_id]
            theirs = block_tables[same, depth : num_whole_blocks[same].min()]
            end = depth + _num_equal_columns(theirs)
            start = first_block
            if (end - start) * block_size * (len(same) - 1) >= MIN_TOKENS_SAVED:
                groups.append(PrefixGroup(same, start, end))
                num_covered[same] = start = end
            walk(same, start, end)

    walk(np.arange(len(block_tables)), 0, 0)
    return groups, num_covered


def _num_equal_columns(ids: np.ndarray) -> int:
    """Number of leading columns of `ids` [num_rows, num_columns] in which all rows agree."""
    differs = (ids != ids[0]).any(axis=0)
    return int(differs.argmax()) if differs.any() else ids.shape[1]
