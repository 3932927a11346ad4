"""Finds a random case on which student and engine differ, and makes it small.

The first few are small. Shrinking takes hundreds of runs, so it has a time limit, and a timeout is
not shrunk at all.
"""

import time
from collections.abc import Iterator
from functools import lru_cache
from random import Random

from minivllm.lessons.checker.cases.behaviour import Behaviour
from minivllm.lessons.checker.cases.draw import Case, Draw
from minivllm.lessons.checker.child.session import Ask
from minivllm.lessons.checker.result import Counterexample, Failure

_FULL_SIZE = 6


def find_counterexample(
    behaviour: Behaviour, ask: Ask, *, seed: int, shrink_seconds: float
) -> Counterexample | None:
    """The smallest failing case that is found in time; None if all cases agree."""
    deadline = time.monotonic() + shrink_seconds
    for index, (case, expected) in enumerate(cases_of(behaviour, seed)):
        if (found := compare(behaviour, case, expected, ask)) is not None:
            is_cheap = found.failure is None or found.failure.kind == "raised"
            if is_cheap and shrink_seconds:
                return _shrunk(found, _drawn(behaviour, seed, index), behaviour, ask, deadline)
            return found
    return None


def cases_of(behaviour: Behaviour, seed: int) -> Iterator[tuple[Case, list[str]]]:
    """The cases of a seed, and the engine's lines for each case."""
    return (_case(behaviour, seed, index) for index in range(behaviour.examples))


@lru_cache(8192)  # for the known mistakes, and for the next submission
def _case(behaviour: Behaviour, seed: int, index: int) -> tuple[Case, list[str]]:
    case = behaviour.cases(_drawn(behaviour, seed, index))
    return case, list(behaviour.observe(case))


def _drawn(behaviour: Behaviour, seed: int, index: int) -> Draw:
    random = Random(f"{seed}/{behaviour.key}/{index}")
    return Draw(random, min((index + 1) / _FULL_SIZE, 1.0))


def _shrunk(
    best: Counterexample, draw: Draw, behaviour: Behaviour, ask: Ask, deadline: float
) -> Counterexample:
    """Leave out elements and lower choices, as long as the case fails and there is time."""
    behaviour.cases(draw)

    def fails(choices: list[int]) -> bool:
        nonlocal best, draw
        smaller = Draw(Random(0), given=choices)
        case = behaviour.cases(smaller)
        is_smaller = (len(smaller.choices), smaller.choices) < (len(draw.choices), draw.choices)
        if not is_smaller or time.monotonic() > deadline:
            return False
        if (found := compare(behaviour, case, list(behaviour.observe(case)), ask)) is not None:
            best, draw = found, smaller
        return found is not None

    before = None
    while before != draw.choices:
        before = draw.choices
        for count in (8, 4, 3, 2, 1):
            for last in reversed(range(len(draw.elements))):
                if some := draw.elements[max(last - count + 1, 0) : last + 1]:
                    fails(draw.choices[: some[0].start] + draw.choices[some[-1].stop :])
        for index, step in enumerate(draw.choices):
            while step and index < len(draw.choices):
                lower = list(draw.choices)
                lower[index] = max(lower[index] - step, 0)
                step = step if fails(lower) else step // 2
    return best


def compare(
    behaviour: Behaviour, case: Case, expected: list[str], ask: Ask
) -> Counterexample | None:
    """Run a case. Return a counterexample if the lines differ or end early, else None."""
    actual, failure = ask(behaviour.key, case)
    index = behaviour.first_difference(expected, actual)
    if behaviour.judge is not None and failure is None:
        missed = behaviour.judge(case, expected, actual)
        failure = Failure("missed", missed) if missed else None
        index = index or 0 if missed else None
    if index is None and failure is None:
        return None
    return Counterexample(case, expected, actual, len(actual) if index is None else index, failure)
