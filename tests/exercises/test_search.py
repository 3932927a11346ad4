"""Random cases: what a seed draws, and how a failing case gets small."""

from random import Random

import pytest

from minivllm.lessons.checker.cases.draw import Draw
from minivllm.lessons.checker.catalogue import find_exercise
from minivllm.lessons.checker.child.session import Reply
from minivllm.lessons.checker.search import cases_of, find_counterexample

SEED = 3
BEHAVIOURS = find_exercise("block-pool").behaviours()[:-1]
"""Behaviours on pools and on traces."""


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.key)
def test_the_cases_of_a_seed_are_stable_and_described_as_the_engine_does(behaviour):
    made = list(cases_of(behaviour, SEED))
    assert len(made) == behaviour.examples
    assert list(cases_of(behaviour._replace(examples=5), SEED)) == made[:5]
    assert [told for _, told in made] == [list(behaviour.observe(case)) for case, _ in made]


def a_case(draw: Draw) -> dict:
    return {
        "numbers": draw.list_of(lambda d: d.integer(3, 50), 0, 9),
        "letters": draw.text("abc", 2, 6),
        "one": [draw.choice("xyz"), draw.boolean()],
    }


@pytest.mark.parametrize("seed", range(20))
def test_choices_that_are_given_draw_the_same_case_and_none_the_simplest(seed):
    drawn = Draw(Random(seed))
    case = a_case(drawn)
    assert a_case(Draw(Random(0), given=drawn.choices)) == case
    simplest = {"numbers": [], "letters": "aa", "one": ["x", False]}
    assert a_case(Draw(Random(0), given=[])) == simplest


def student(key: str, case: dict) -> Reply:
    """Is wrong if two of the numbers are above 20."""
    is_wrong = sum(number > 20 for number in case["numbers"]) >= 2
    return Reply(["wrong" if is_wrong else "right"], None)


def test_a_failing_case_keeps_only_what_makes_it_fail():
    behaviour = BEHAVIOURS[0]._replace(cases=a_case, observe=lambda case: ["right"])
    for seed in range(10):
        found = find_counterexample(behaviour, student, seed=seed, shrink_seconds=60)
        assert found.case == {"numbers": [21, 21], "letters": "aa", "one": ["x", False]}
