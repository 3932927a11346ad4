"""Finds the misconception behind a failing solution.

A known mistake fits if it fails in the same way on the small cases on which the student's code
failed, passes where that code passes, and fails at the same lines on a sample of further cases.
An unfinished solution is not diagnosed: a wrong diagnosis is worse than none.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice

from minivllm.lessons.checker.cases.behaviour import VISIBLE, Behaviour
from minivllm.lessons.checker.cases.draw import Case
from minivllm.lessons.checker.catalogue import Mistake
from minivllm.lessons.checker.child.session import Ask, Worker
from minivllm.lessons.checker.result import UNUSABLE, Counterexample, Failure, Result
from minivllm.lessons.checker.search import cases_of, compare

_Found = Counterexample | None
SAMPLE = 3
"""For a failing behaviour, compare only a third of the cases: differences show soon."""


def diagnose(result: Result, submission: Ask, worker: Worker) -> list[Mistake]:
    """The known mistakes that fail the same cases in the same way."""
    own = [found for found in result.behaviours if found.behaviour.name != VISIBLE]
    failures = [found.failure for found in own if found.failure is not None]
    is_finished = not result.could_not_run and all(fail.is_about_the_code for fail in failures)
    if not is_finished or all(found.passed for found in own):
        return []
    alike = worker.exercise.mistakes
    cases = _cases(result._replace(behaviours=own), submission)
    for behaviour, case, expected, theirs, is_whole in cases:
        if not alike:
            break
        run = partial(compare, behaviour, case, expected)
        found = [(mistake, run(partial(worker.ask, mistake.name))) for mistake in alike]
        alike = [known for known, ours in found if _fail_alike(ours, theirs, behaviour, is_whole)]
    return alike


def _cases(result: Result, ask: Ask) -> Iterator[tuple[Behaviour, Case, list[str], _Found, bool]]:
    """(behaviour, case, the engine's lines, how the submission fails, whether in all lines)."""
    for behaviour, found, _ in result.behaviours:
        if found is not None:
            yield behaviour, found.case, found.expected, found, True
    for behaviour, found, _ in result.behaviours:
        # If the submission passes a behaviour, a mistake must pass all of its cases.
        num_cases = behaviour.examples if found is None else behaviour.examples // SAMPLE
        for case, expected in islice(cases_of(behaviour, result.seed), num_cases):
            theirs = found and compare(behaviour, case, expected, ask)
            yield behaviour, case, expected, theirs, False


def _fail_alike(ours: _Found, theirs: _Found, behaviour: Behaviour, is_whole: bool) -> bool:
    """Whether both pass, or differ in the same way: in large cases in the first different line."""
    if ours is None or theirs is None:
        return ours is theirs
    first = slice(ours.index, None if is_whole else ours.index + 1)
    is_same = behaviour.first_difference(ours.actual[first], theirs.actual[first]) is None
    says_same = _words(ours.failure) == _words(theirs.failure)
    shows = bool(ours.actual[first]) and not is_whole
    return ours.index == theirs.index and is_same and (says_same or shows)


def _words(failure: Failure | None) -> str | None:
    """The failure without what differs between two solutions: line numbers and limits."""
    match failure:
        case None | Failure("missed"):  # what a judge says of lines without a failure
            return None
        case Failure("time" | "memory"):
            return "endless"  # an endless loop that collects data can hit either limit first
        case Failure("raised", text):
            head, _, rest = text.removeprefix(UNUSABLE).partition(" in line ")
            return f"{head}:{rest.partition(':')[2]}"
    return failure.kind
