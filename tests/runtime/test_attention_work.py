"""How a step's attention is cut into parts: every pair once, the longest first, shared prefixes at whole tiles."""

import numpy as np
import pytest
from attention_cases import SHARING, Seq, StepCase, random_case

from minivllm.runtime.attention_work import NUM_LANES, NUM_TOKENS_AT_ONCE, AttentionWork, cut_into_parts

FIRST_ENTRY, FIRST_PAIR, NUM_PAIRS, TABLE, BEGIN, LIMIT, GROWS, IS_LAST, IS_DECODE = range(9)


def cut(case: StepCase) -> AttentionWork:
    return cut_into_parts(case.metadata(), case.block_size, case.group)


def tokens_of_pairs(case: StepCase) -> dict[tuple[int, int], list[int]]:
    """For each row and head of a group the tokens that its parts look at, in the order in which they do."""
    work, seen = cut(case), {}
    for part in work.parts.tolist():
        for pair in range(part[FIRST_PAIR], part[FIRST_PAIR] + part[NUM_PAIRS]):
            row = int(work.rows[part[FIRST_ENTRY] + pair // case.group])
            end = part[LIMIT] + part[GROWS] * (pair // case.group)
            tables = work.block_tables.reshape(-1)[part[TABLE] :]
            slots = [
                tables[t // case.block_size] * case.block_size + t % case.block_size for t in range(part[BEGIN], end)
            ]
            seen.setdefault((row, pair % case.group), []).extend(map(int, slots))
    return seen


@pytest.mark.parametrize("seed", range(20))
def test_every_row_looks_at_each_of_its_tokens_once_from_left_to_right(seed: int) -> None:
    seqs, options = random_case(seed)
    case = StepCase(seqs, **options)
    expected = {}
    for i, seq in enumerate(seqs):
        for new in range(seq.num_new):
            slots = case.slots(i, 0, seq.num_computed + new + 1)
            expected |= {(case.query_start_loc[i] + new, head): slots for head in range(case.group)}
    assert tokens_of_pairs(case) == expected


@pytest.mark.parametrize("name", SHARING)
def test_a_shared_prefix_ends_where_a_tile_ends_and_a_row_is_in_one_part_of_a_level(name: str) -> None:
    case = StepCase(SHARING[name], block_size=4)
    work = cut(case)
    assert len(work.level_ends) > 1 and work.level_ends[-1] == len(work.parts)
    assert not (work.parts[:, BEGIN] % NUM_TOKENS_AT_ONCE).any()
    for level in np.split(work.parts, work.level_ends[:-1]):
        entries = [(part[FIRST_ENTRY] * case.group + part[FIRST_PAIR], part[NUM_PAIRS]) for part in level.tolist()]
        pairs = [
            int(work.rows[p // case.group]) * case.group + p % case.group for a, n in entries for p in range(a, a + n)
        ]
        assert len(set(pairs)) == len(pairs)


def test_the_longest_parts_of_a_level_come_first_and_none_has_more_lanes_than_there_are() -> None:
    work = cut(StepCase([Seq(0, 50), Seq(3), Seq(100), Seq(30, 20)]))
    num_tokens = work.parts[:, LIMIT] + work.parts[:, GROWS] * (work.parts[:, FIRST_PAIR] // 3) - work.parts[:, BEGIN]
    assert (np.diff(num_tokens) <= 0).all()
    assert work.parts[:, NUM_PAIRS].max() == NUM_LANES
    assert work.parts[:, IS_LAST].all() and work.parts[:, IS_DECODE].sum() == 2
