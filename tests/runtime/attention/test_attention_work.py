"""How a step's attention is split into parts: each pair once, longest first, whole tiles shared."""

import re
from importlib import resources

import numpy as np
import pytest
from support.model.attention_cases import SHARING, Seq, StepCase

from minivllm.kernels.cpu import ops
from minivllm.runtime.cpu.attention_work import (
    NUM_LANES,
    NUM_TOKENS_AT_ONCE,
    PART,
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
        entries = [
            (part["first_entry"] * case.group + part["first_pair"], part["num_pairs"])
            for part in level
        ]
        pairs = [
            int(work.rows[p // case.group]) * case.group + p % case.group
            for a, n in entries
            for p in range(a, a + n)
        ]
        assert len(set(pairs)) == len(pairs)


def test_the_longest_parts_of_a_level_come_first_and_none_has_too_many_lanes():
    work = cut(StepCase([Seq(0, 50), Seq(3), Seq(100), Seq(30, 20)]))
    num_tokens = (
        work.parts["limit"]
        + work.parts["grows"] * (work.parts["first_pair"] // 3)
        - work.parts["begin"]
    )
    assert (np.diff(num_tokens) <= 0).all()
    assert work.parts["num_pairs"].max() == NUM_LANES
    assert work.parts["is_last"].all() and work.parts["is_decode"].sum() == 2


def source(name: str) -> str:
    return resources.files("minivllm.kernels.cpu").joinpath(name).read_text(encoding="utf-8")


def test_python_and_the_kernels_agree_on_field_names():
    attention, vector = source("attention.c"), source("vector.h")
    fields = re.search(r"struct part \{(.*?)\n\};", attention, re.DOTALL).group(1)
    declared = (
        re.sub(r"/\*.*?\*/", "", fields, flags=re.DOTALL).replace("int64_t", "").replace(";", ",")
    )
    assert tuple(name.strip() for name in declared.split(",") if name.strip()) == PART.names
    defined = dict(re.findall(r"#define (\w+) (\d+)", attention + vector))
    assert int(defined["LANES"]) == ops.LANES == NUM_LANES
    assert int(defined["MAX_HEAD_SIZE"]) == ops.MAX_HEAD_SIZE
    assert int(defined["TILE"]) == NUM_TOKENS_AT_ONCE
