"""hypothesis looks for a case on which the student's side tells something else, and makes it as small as it can.

Cases are drawn here, in the judging process, and the reference's lines are made here; the student's come from its session.
The easy thing to get wrong is time. A failing case shrinks in hundreds of runs: a loop that costs a second each must not be
shrunk at all, and an ordinary failure only for as long as a person waits.
"""

import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any, NamedTuple

from minivllm.errors import ExerciseError
from minivllm.lessons.exercises.behaviour import Behaviour
from minivllm.lessons.exercises.draw import Case, CaseMaker, Draw, T
from minivllm.lessons.exercises.sandbox import Failure, Session

NOT_SHRUNK = ("todo", "time", "memory", "output", "exit", "died", "patched")


class Counterexample(NamedTuple):
    """A case on which the two sides part."""

    case: Case
    expected: list[str]
    told: list[str]
    index: int
    """The first line that differs, or that one side lacks."""
    failure: Failure | None
    """Why the student's lines end there."""


class _EnoughError(BaseException):
    """Ends the search at once: hypothesis lets pass what is no Exception."""


class _DiffersError(Exception):
    """What hypothesis sees of a failing case."""


def find_counterexample(
    behaviour: Behaviour, session: Session, *, seed: int, shrink_seconds: float
) -> Counterexample | None:
    """The smallest that was found in the time; None if all cases agree."""
    for case, expected in _cases_of(behaviour, seed):
        found = _compare_with(expected, behaviour, session, case)
        if found is not None:
            if found.failure is not None and found.failure.kind in NOT_SHRUNK:
                return found
            return _shrunk(found, behaviour, session, seed, shrink_seconds)
    return None


class _Cases:
    """The random cases of a seed, and what the engine's own source does on them: made when somebody asks, and kept."""

    _FIRST = 12
    """So many at first, then all: most of what is wrong fails on one of the first, and need not wait for the others."""

    def __init__(self, behaviour: Behaviour, seed: int) -> None:
        self._behaviour, self._seed = behaviour, seed
        self._made: list[tuple[Case, list[str]]] = []
        self._is_complete = False

    def __iter__(self) -> Iterator[tuple[Case, list[str]]]:
        index = 0
        while True:
            if index == len(self._made) and not self._is_complete:
                self._make(None if index else self._FIRST)
            if index == len(self._made):
                return
            yield self._made[index]
            index += 1

    def _make(self, count: int | None) -> None:
        """So many, or all. The same seed draws the same from the first one on, so those that are there are passed over."""
        drawn = 0

        def keep(case: Case) -> None:
            nonlocal drawn
            drawn += 1
            if drawn > len(self._made):
                self._made.append((case, list(self._behaviour.observe(case))))
            if drawn == count:
                raise _EnoughError

        with suppress(_EnoughError):
            _hypothesis(self._behaviour, self._seed, keep, shrinks=False)
            self._is_complete = True


@cache  # made once for all submissions
def _cases_of(behaviour: Behaviour, seed: int) -> _Cases:
    return _Cases(behaviour, seed)


def _shrunk(best: Counterexample, behaviour: Behaviour, session: Session, seed: int, seconds: float) -> Counterexample:
    deadline = time.monotonic() + seconds

    def test(case: Case) -> None:
        nonlocal best
        if time.monotonic() > deadline:
            raise _EnoughError
        found = compare(behaviour, session, case)
        if found is None:
            return
        # hypothesis goes from larger to smaller, so the latest is the smallest; but it may also look aside.
        if len(repr(case)) <= len(repr(best.case)):
            best = found
        raise _DiffersError

    # The same seed draws the same cases, and so comes upon the failing one again.
    with suppress(_EnoughError, _DiffersError):
        _hypothesis(behaviour, seed, test, shrinks=True)
    return best


def _hypothesis(behaviour: Behaviour, seed: int, test: Callable[[Case], None], *, shrinks: bool) -> None:
    try:
        from hypothesis import HealthCheck, Phase, given, settings
        from hypothesis import seed as with_seed
    except ImportError as error:
        raise ExerciseError("Exercises need hypothesis: pip install 'minivllm[lessons]'.") from error
    limits = settings(
        max_examples=behaviour.examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink) if shrinks else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )

    def run(case: Case) -> None:
        test(case)

    with_seed(seed)(limits(given(strategy_of(behaviour.cases))(run)))()


def compare(behaviour: Behaviour, session: Session, case: Case) -> Counterexample | None:
    """Run one case on both sides."""
    return _compare_with(list(behaviour.observe(case)), behaviour, session, case)


def _compare_with(expected: list[str], behaviour: Behaviour, session: Session, case: Case) -> Counterexample | None:
    told, failure = session.ask({"behaviour": behaviour.key, "case": case})
    index = behaviour.first_difference(expected, told)
    if index is None and failure is None:
        return None
    return Counterexample(case, expected, told, len(told) if index is None else index, failure)


# ---- `Draw`, by hypothesis ----


@lru_cache(256)  # bounded: a lambda in a case is another one in every draw
def strategy_of(cases: CaseMaker) -> Any:
    """A hypothesis strategy for what `cases` draws."""
    return _composite()(cases)


@cache  # making one reads source files: once for all, and not once for each lambda
def _composite() -> Callable[[CaseMaker], Any]:
    from hypothesis import strategies as st

    @st.composite
    def drawn_by(draw: Callable[[Any], Any], cases: CaseMaker) -> Case:
        return cases(_HypothesisDraw(draw))

    return drawn_by


@cache  # the same few bounds are asked for in every case
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
