"""How a step's attention is split into parts: each pair once, longest first, whole tiles shared."""

import numpy as np
import pytest
from support.model.attention_cases import SHARING, Seq, StepCase

from minivllm.runtime.cpu.attention_work import (
    NUM_LANES,
    NUM_TOKENS_AT_ONCE,
    AttentionWork,
    cut_into_parts,
)


def cut(case: StepCase) -> AttentionWork:
    return cut_into_parts(case.metadata(), case.block_size, case.group)


@pytest.mark.parametrize("name", SHARING)
def test_a_shared_prefix_ends_where_a_tile_ends_and_a_row_is_in_one_part_of_a_level(name):
    case = StepCase(SHARING[name], block_size=4)
    work = cut(case)
    assert len(work.level_ends) > 1 and work.level_ends[-1] == len(work.parts)
    assert not (work.parts["begin"] % NUM_TOKENS_AT_ONCE).any()
    for level in np.split(work.parts, work.level_ends[:-1]):
        first = level["first_entry"] * case.group + level["first_pair"]
        pairs = [
            int(work.rows[p // case.group]) * case.group + p % case.group
            for start, count in zip(first, level["num_pairs"], strict=True)
            for p in range(start, start + count)
        ]
        assert len(set(pairs)) == len(pairs)


def test_the_longest_parts_of_a_level_come_first_and_none_has_too_many_lanes():
    work = cut(StepCase([Seq(0, 50), Seq(3), Seq(100), Seq(30, 20)]))
    last_row = work.parts["grows"] * (work.parts["first_pair"] // 3)
    num_tokens = work.parts["limit"] + last_row - work.parts["begin"]
    assert (np.diff(num_tokens) <= 0).all()
    assert work.parts["num_pairs"].max() == NUM_LANES
    assert work.parts["is_last"].all() and work.parts["is_decode"].sum() == 2
