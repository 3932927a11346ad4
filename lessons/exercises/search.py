"""hypothesis looks for a case on which the student's side tells something else, and makes it as small as it can.

Cases are drawn here, in the judging process, and the reference's lines are made here; the student's come from its session.
The easy thing to get wrong is time. A failing case shrinks in hundreds of runs: a loop that costs a second each must not be
shrunk at all, and an ordinary failure only for as long as a person waits.
"""

import time
from collections.abc import Callable
from collections.abc import Sequence as Seq
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


def find_counterexample(
    behaviour: Behaviour, session: Session, *, seed: int, shrink_seconds: float
) -> Counterexample | None:
    """The smallest that was found in the time; None if all cases agree. Raises `ExerciseError` without hypothesis."""
    try:
        from hypothesis import HealthCheck, Phase, given, settings
        from hypothesis import seed as with_seed
    except ImportError as error:
        raise ExerciseError("Exercises need hypothesis: pip install 'minivllm[lessons]'.") from error
    best: Counterexample | None = None
    deadline = float("inf")

    def test(case: Case) -> None:
        nonlocal best, deadline
        if time.monotonic() > deadline:
            raise _EnoughError
        found = compare(behaviour, session, case)
        if found is None:
            return
        if best is None:
            deadline = time.monotonic() + shrink_seconds
        # hypothesis goes from larger to smaller, so the latest is the smallest; but it may also look aside.
        if best is None or len(repr(case)) <= len(repr(best.case)):
            best = found
        if found.failure is not None and found.failure.kind in NOT_SHRUNK:
            raise _EnoughError
        raise _DiffersError

    limits = settings(
        max_examples=behaviour.examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    try:
        with_seed(seed)(limits(given(strategy_of(behaviour.cases))(test)))()
    except (_EnoughError, _DiffersError):
        pass
    return best


class _DiffersError(Exception):
    """What hypothesis sees of a failing case."""


def compare(behaviour: Behaviour, session: Session, case: Case) -> Counterexample | None:
    """Run one case on both sides."""
    expected = list(behaviour.observe(case))
    told, failure = session.ask({"behaviour": behaviour.key, "case": case})
    index = behaviour.first_difference(expected, told)
    if index is None and failure is None:
        return None
    return Counterexample(case, expected, told, len(told) if index is None else index, failure)


# ---- `Draw`, by hypothesis ----


def strategy_of(cases: CaseMaker) -> Any:
    """A hypothesis strategy for what `cases` draws."""
    from hypothesis import strategies as st

    return st.composite(lambda draw: cases(_HypothesisDraw(draw)))()


class _HypothesisDraw:
    def __init__(self, draw: Callable[[Any], Any]) -> None:
        from hypothesis import strategies

        self._draw, self._st = draw, strategies

    def integer(self, least: int, most: int) -> int:
        return self._draw(self._st.integers(least, most))

    def choice(self, options: Seq[T]) -> T:
        return self._draw(self._st.sampled_from(options))

    def boolean(self) -> bool:
        return self._draw(self._st.booleans())

    def number(self, least: float, most: float) -> float:
        return self._draw(self._st.floats(least, most))

    def list_of(self, element: Callable[[Draw], T], least: int, most: int) -> list[T]:
        return self._draw(self._st.lists(strategy_of(element), min_size=least, max_size=most))
