"""Which sequences of a step share the start of their contexts, so that it is read once for all of
them.

Sixteen requests with one system prompt have the same block ids at the head of their tables.
Attending to those blocks once, for all sixteen queries together, turns sixteen small memory-bound
products into one large one; what each sequence has of its own is attended to apart and the parts
are merged by their log-sum-exp ("cascade attention"). vLLM does so only if *all* running requests
share; here the block tables are walked as a tree, so one unrelated request costs the others
nothing, and a group within a group (a system prompt, then a long document) is found too.

Only numpy, and only ids: the result is right whatever is grouped, grouping is only a matter of
speed. The thing that is easy to get wrong is causality: a block may be shared only by sequences for
which all of it lies before their first query. `num_whole_blocks` is that limit.

Source: Hydragen (Juravsky et al., 2024), FlashInfer's cascade attention; vLLM
`use_cascade_attention`.
"""

from dataclasses import dataclass

import numpy as np

MIN_TOKENS_SAVED = 128
"""A group must spare at least so many tokens' reading, or the extra operations cost more than they
save.
"""


@dataclass(slots=True)
class PrefixGroup:
    """These sequences all see the same blocks at columns [first_block, end_block) of their
    tables.
    """

    members: np.ndarray
    """[num_members] int64: rows of the block tables."""
    first_block: int
    end_block: int


def find_prefix_groups(
    block_tables: np.ndarray, num_whole_blocks: np.ndarray, block_size: int
) -> tuple[list[PrefixGroup], np.ndarray]:
    """Group the rows of `block_tables: [num_seqs, max_blocks]` by equal ids at their head.

    num_whole_blocks: [num_seqs], the blocks of each that lie before all its queries Returns the
    groups, and for each sequence the number of its leading blocks that they cover, [num_seqs]. A
    sequence may be in several groups, one after another along its table.
    """
    groups: list[PrefixGroup] = []
    num_covered = np.zeros(len(block_tables), dtype=np.int64)

    def walk(members: np.ndarray, first_block: int, depth: int) -> None:
        """`members` agree on their first `depth` blocks and are covered up to `first_block`."""
        members = members[num_whole_blocks[members] > depth]
        if len(members) < 2:
            return
        ids = block_tables[members, depth]
        distinct, counts = np.unique(ids, return_counts=True)
        for block_id in distinct[counts > 1]:
            same = members[ids == block_id]
            end = depth + _num_equal_columns(
                block_tables[same, depth : num_whole_blocks[same].min()]
            )
            start = first_block
            if (end - start) * block_size * (len(same) - 1) >= MIN_TOKENS_SAVED:
                groups.append(PrefixGroup(same, start, end))
                num_covered[same] = start = end
            walk(same, start, end)

    walk(np.arange(len(block_tables)), 0, 0)
    return groups, num_covered


def _num_equal_columns(ids: np.ndarray) -> int:
    """How many leading columns of `ids: [num_rows, num_columns]` hold one value each."""
    differs = (ids != ids[0]).any(axis=0)
    return int(differs.argmax()) if differs.any() else ids.shape[1]
