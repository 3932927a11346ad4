"""Grouping of sequences by shared prefix, in tables small enough to check by eye."""

import numpy as np
import pytest

from minivllm.runtime.attention.prefix_groups import MIN_TOKENS_SAVED, find_prefix_groups

BLOCK_SIZE = 64  # two blocks are worth sharing; one is only worth it for three sequences


def groups_of(tables: list[list[int]], num_whole: list[int]) -> tuple[list[tuple], list[int]]:
    """Groups as (members, first block, end block), and the covered blocks of each sequence."""
    width = max(map(len, tables))
    array = np.array([table + [0] * (width - len(table)) for table in tables])
    whole = np.array(num_whole)
    groups, covered = find_prefix_groups(array, whole, BLOCK_SIZE)
    return [
        (group.members.tolist(), group.first_block, group.end_block) for group in groups
    ], covered.tolist()


def test_a_longer_prefix_of_some_members_is_a_nested_group():
    tables = [[1, 2, 3, 4, 5], [1, 2, 3, 4, 6], [1, 2, 7, 8, 9], [1, 2, 7, 8, 10]]
    groups, covered = groups_of(tables, [5] * 4)
    assert groups == [([0, 1, 2, 3], 0, 2), ([0, 1], 2, 4), ([2, 3], 2, 4)]
    assert covered == [4, 4, 4, 4]


@pytest.mark.parametrize("seed", range(8))
def test_groups_cover_only_blocks_that_all_their_members_have(seed):
    rng = np.random.default_rng(seed)
    tables: list[list[int]] = []
    for i in range(12):
        stem = tables[rng.integers(len(tables))][: rng.integers(0, 9)] if tables else []
        tables.append([*stem, *range(100 * i + 1, 100 * i + 2 + int(rng.integers(0, 6)))])
    whole = [int(rng.integers(0, len(table) + 1)) for table in tables]
    groups, covered = groups_of(tables, whole)
    reached = [0] * len(tables)
    for members, first, end in groups:
        assert (end - first) * BLOCK_SIZE * (len(members) - 1) >= MIN_TOKENS_SAVED
        for member in members:
            assert tables[member][first:end] == tables[members[0]][first:end]
            assert end <= whole[member]
            assert reached[member] == first, "groups must follow one another without gap or overlap"
            reached[member] = end
    assert reached == covered
