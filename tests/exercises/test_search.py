"""Random cases: what a seed draws, and how much of it is made for whom."""

import pytest

from minivllm.lessons.exercises import search
from minivllm.lessons.exercises.behaviour import Behaviour, behaviours_of
from minivllm.lessons.exercises.catalogue import find_exercise

SEED = 3


def behaviours() -> list[Behaviour]:
    """Of pools and of traces."""
    return behaviours_of(find_exercise("block-pool").behaviours_module())


@pytest.mark.parametrize("behaviour", behaviours(), ids=lambda one: one.key)
def test_the_cases_of_a_seed_are_those_that_hypothesis_draws_at_one_go(behaviour: Behaviour):
    whole: list = []
    search._hypothesis(behaviour, SEED, whole.append, shrinks=False)
    cases = search._Cases(behaviour, SEED)
    assert [case for case, _ in cases] == whole
    assert [case for case, _ in cases] == whole, "the second submission gets the same"
    assert [told for _, told in cases] == [list(behaviour.observe(case)) for case in whole]


def test_whoever_fails_on_the_first_case_does_not_wait_for_the_others():
    behaviour = behaviours()[0]
    observed = []
    counting = behaviour._replace(observe=lambda case: observed.append(case) or behaviour.observe(case))
    first = next(iter(search._Cases(counting, SEED)))
    assert first[0] == observed[0]
    assert len(observed) < behaviour.examples / 3


def test_another_seed_draws_other_cases():
    behaviour = behaviours()[0]
    assert list(search._Cases(behaviour, 1)) != list(search._Cases(behaviour, 2))
