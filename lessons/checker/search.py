"""Finds a random case on which student and engine differ, and shrinks it with hypothesis.

Cases are drawn uniformly, and the first few are small. Hypothesis is only used to shrink, because
half of the cases that it draws itself are trivial, and many are repeated.

Shrinking takes hundreds of runs, so it has a time limit. A timeout, which costs a second per run,
is not shrunk at all.
"""

import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from contextlib import suppress
from functools import cache, lru_cache
from math import ceil
from random import Random
from typing import Any, NamedTuple

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.cases.behaviour import Behaviour
from minivllm.lessons.checker.cases.draw import Case, CaseMaker, Draw, T
from minivllm.lessons.checker.child.sandbox import Failure, Session

_FULL_SIZE = 6
_MAX_TRIES = 300
"""Maximum number of cases that hypothesis draws to find a failing case of its own."""
_NOT_SHRUNK = ("todo", "time", "memory", "output", "exit", "died", "channel", "missed")


class Counterexample(NamedTuple):
    case: Case
    expected: list[str]
    actual: list[str]
    index: int
    """Index of the first line that differs, or that one side lacks."""
    failure: Failure | None
    """Why the student's lines end early; None if they do not."""


class _EnoughError(BaseException):
    """Ends the search at once. A `BaseException`, because hypothesis catches every `Exception`."""


class _DiffersError(Exception):
    """Reports a failing case to hypothesis."""


def find_counterexample(
    behaviour: Behaviour, session: Session, *, seed: int, shrink_seconds: float
) -> Counterexample | None:
    """The smallest failing case that is found in the given time; None if all cases agree.

    Without time, it is the first that fails.
    """
    for case, expected in cases_of(behaviour, seed):
        found = compare_with(expected, behaviour, session, case)
        if found is not None:
            is_costly = found.failure is not None and found.failure.kind in _NOT_SHRUNK
            if is_costly or not shrink_seconds:
                return found
            return _shrunk(found, behaviour, session, seed, shrink_seconds)
    return None


class _Cases:
    """The cases of a seed, and the engine's lines for each case; made on demand and cached."""

    def __init__(self, behaviour: Behaviour, seed: int) -> None:
        self._behaviour, self._seed = behaviour, seed
        self._made: list[tuple[Case, list[str]]] = []

    def __iter__(self) -> Iterator[tuple[Case, list[str]]]:
        for index in range(self._behaviour.examples):
            if index == len(self._made):
                random = Random(f"{self._seed}/{self._behaviour.key}/{index}")
                case = self._behaviour.cases(RandomDraw(random, min((index + 1) / _FULL_SIZE, 1.0)))
                self._made.append((case, list(self._behaviour.observe(case))))
            yield self._made[index]


@cache  # one object for all submissions
def cases_of(behaviour: Behaviour, seed: int) -> _Cases:
    return _Cases(behaviour, seed)


def _shrunk(
    best: Counterexample, behaviour: Behaviour, session: Session, seed: int, seconds: float
) -> Counterexample:
    """The smallest failing case that hypothesis finds in `seconds`; `best` if it finds none."""
    try:
        from hypothesis import HealthCheck, Phase, given, settings
        from hypothesis import seed as with_seed
        from hypothesis.errors import Flaky
    except ImportError as error:
        raise ExerciseError(
            "Exercises need hypothesis: pip install 'minivllm[lessons]'."
        ) from error
    deadline = time.monotonic() + seconds
    limits = settings(
        max_examples=_MAX_TRIES,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )

    def run(case: Case) -> None:
        nonlocal best
        if time.monotonic() > deadline:
            raise _EnoughError
        found = compare_with(list(behaviour.observe(case)), behaviour, session, case)
        if found is None:
            return
        # Hypothesis usually goes from larger to smaller cases, but not always.
        if len(repr(case)) <= len(repr(best.case)):
            best = found
        raise _DiffersError

    with suppress(_EnoughError, _DiffersError, Flaky):  # flaky: a case failed, and then it passed
        with_seed(seed)(limits(given(strategy_of(behaviour.cases))(run)))()
    return best


def compare_with(
    expected: list[str], behaviour: Behaviour, session: Session, case: Case
) -> Counterexample | None:
    """Run one case with the student's code. expected: the engine's lines for the case"""
    return compare_lines(
        expected, behaviour, case, *session.ask({"behaviour": behaviour.key, "case": case})
    )


def compare_lines(
    expected: list[str],
    behaviour: Behaviour,
    case: Case,
    actual: list[str],
    failure: Failure | None,
) -> Counterexample | None:
    """Return a counterexample if the lines differ or end early, else None."""
    index = behaviour.first_difference(expected, actual)
    if behaviour.judge is not None and failure is None:
        missed = behaviour.judge(case, expected, actual)
        if not missed:
            return None
        return Counterexample(case, expected, actual, index or 0, Failure("missed", missed))
    if index is None and failure is None:
        return None
    return Counterexample(case, expected, actual, len(actual) if index is None else index, failure)


# ---- `Draw`, at random and with hypothesis ----


class RandomDraw:
    """Draws uniformly, except that both ends of a range are more frequent.

    size: scales the ranges; at most 1
    """

    _AT_AN_END = 0.125

    def __init__(self, random: Random, size: float) -> None:
        self._random, self._size = random, size

    def integer(self, least: int, most: int) -> int:
        most = least + ceil((most - least) * self._size)
        end = self._random.random()
        if end < 2 * self._AT_AN_END:
            return least if end < self._AT_AN_END else most
        return self._random.randint(least, most)

    def choice(self, options: Seq[T]) -> T:
        return self._random.choice(options)

    def boolean(self) -> bool:
        return self._random.random() < 0.5

    def number(self, least: float, most: float) -> float:
        return self._random.uniform(least, most)

    def text(self, letters: str, least: int, most: int) -> str:
        return "".join(self._random.choice(letters) for _ in range(self.integer(least, most)))

    def list_of(self, element: Callable[[Draw], T], least: int, most: int) -> list[T]:
        return [element(self) for _ in range(self.integer(least, most))]


@lru_cache(256)  # limited, because a lambda in a case is a new object in every draw
def strategy_of(cases: CaseMaker) -> Any:
    return _composite()(cases)


@cache  # building a strategy reads source files, so build only one for all lambdas
def _composite() -> Callable[[CaseMaker], Any]:
    from hypothesis import strategies as st

    @st.composite
    def drawn_by(draw: Callable[[Any], Any], cases: CaseMaker) -> Case:
        return cases(_HypothesisDraw(draw))

    return drawn_by


@cache  # the same few bounds occur in every case
def _integers(least: int, most: int) -> Any:
    from hypothesis import strategies as st

    return st.integers(least, most)


class _HypothesisDraw:
    def __init__(self, draw: Callable[[Any], Any]) -> None:
        from hypothesis import strategies

        self._draw, self._st = draw, strategies

    def integer(self, least: int, most: int) -> int:
        return self._draw(_integers(least, most))

    def choice(self, options: Seq[T]) -> T:
        return self._draw(self._st.sampled_from(options))

    def boolean(self) -> bool:
        return self._draw(self._st.booleans())

    def number(self, least: float, most: float) -> float:
        return self._draw(self._st.floats(least, most))

    def text(self, letters: str, least: int, most: int) -> str:
        return self._draw(self._st.text(letters, min_size=least, max_size=most))

    def list_of(self, element: Callable[[Draw], T], least: int, most: int) -> list[T]:
        return self._draw(self._st.lists(strategy_of(element), min_size=least, max_size=most))
