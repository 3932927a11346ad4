"""Random cases: what a seed draws, and how many kinds of cases there are."""

import pytest

from minivllm.lessons.checker import search
from minivllm.lessons.checker.cases.behaviour import behaviours_of
from minivllm.lessons.checker.catalogue import find_exercise

SEED = 3
BEHAVIOURS = behaviours_of(find_exercise("block-pool").behaviours_module())
"""Behaviours on pools and on traces."""


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda one: one.key)
def test_the_cases_of_a_seed_are_stable_and_described_as_the_engine_does(behaviour):
    cases = search._Cases(behaviour, SEED)
    made = list(cases)
    assert len(made) == behaviour.examples
    assert list(cases) == made, "the second submission gets the same"
    again = behaviour._replace(examples=5)
    assert list(search._Cases(again, SEED)) == made[:5]
    assert [told for _, told in made] == [list(behaviour.observe(case)) for case, _ in made]
    observed = []
    counting = behaviour._replace(observe=lambda case: observed.append(case) or [])
    first = next(iter(search._Cases(counting, SEED)))
    assert [first[0]] == observed, "the others are not drawn when the first fails"
