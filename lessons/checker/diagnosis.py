"""Finds the misconception behind a failing solution.

A known mistake fits if it fails in the same way on the small cases on which the student's code
failed, passes where that code passes, and fails at the same lines on a sample of further cases.

A wrong diagnosis is worse than no diagnosis. So an unfinished solution is not diagnosed, and if two
mistakes fit, the report names neither (`Result.misconception`).
"""

import tempfile
from itertools import islice
from pathlib import Path
from typing import Self

from minivllm.lessons.checker.cases.behaviour import VISIBLE, Behaviour
from minivllm.lessons.checker.cases.draw import Case
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.child.session import Reply, Session
from minivllm.lessons.checker.mistakes import Mistake
from minivllm.lessons.checker.result import UNUSABLE, BehaviourResult, Counterexample, Failure
from minivllm.lessons.checker.search import cases_of, compare_lines

SAMPLE = 3
"""For a failing behaviour, compare only a third of the cases: differences show soon."""


class KnownMistakes:
    """Runs all known mistakes of an exercise in one session; a context manager."""

    def __init__(self, exercise: Exercise) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="minivllm-mistakes-")
        self._mistakes = exercise.mistakes
        for mistake in self._mistakes:
            self.file_of(mistake).write_text(mistake.source(exercise.source), encoding="utf-8")
        self._session = Session(exercise)

    def file_of(self, mistake: Mistake) -> Path:
        return Path(self._folder.name) / f"{mistake.name}.py"

    def diagnose(
        self, results: list[BehaviourResult], submission: Session, seed: int
    ) -> list[Mistake]:
        """The mistakes that fail in the same way as the submission, which runs further cases."""
        results = [one for one in results if one.behaviour.name != VISIBLE]
        failures = [one.failure for one in results]
        if all(one.passed for one in results) or any(
            failure is not None and not failure.is_about_the_code for failure in failures
        ):
            return []
        alike = [
            mistake
            for mistake in self._mistakes
            if all(one.passed or self._does_the_same(mistake, one) for one in results)
        ]
        for behaviour, found, _ in results:
            # If the submission passes a behaviour, a mistake must pass all of its cases.
            num_cases = behaviour.examples if found is None else behaviour.examples // SAMPLE
            for case, expected in islice(cases_of(behaviour, seed), num_cases) if alike else ():
                theirs = found and compare_lines(
                    expected, behaviour, case, submission.ask(behaviour.key, case)
                )
                alike = [
                    mistake
                    for mistake in alike
                    if self._fails_alike(mistake, behaviour, case, expected, theirs)
                ]
        return alike

    def _ask(self, mistake: Mistake, behaviour: Behaviour, case: Case) -> Reply:
        return self._session.ask(behaviour.key, case, self.file_of(mistake))

    def _does_the_same(self, mistake: Mistake, failed: BehaviourResult) -> bool:
        one = failed.counterexample
        actual, failure = self._ask(mistake, failed.behaviour, one.case)
        is_same = failed.behaviour.first_difference(one.actual, actual) is None
        return is_same and _words(failure) == _words(one.failure)

    def _fails_alike(
        self,
        mistake: Mistake,
        behaviour: Behaviour,
        case: Case,
        expected: list[str],
        theirs: Counterexample | None,
    ) -> bool:
        """Whether both differ from the engine at the same line in the same way, or both pass."""
        ours = compare_lines(expected, behaviour, case, self._ask(mistake, behaviour, case))
        if ours is None or theirs is None:
            return ours is theirs
        # Compare only the first different line: later lines depend on how the code is written.
        own, other = (one.actual[one.index : one.index + 1] for one in (ours, theirs))
        if ours.index != theirs.index or behaviour.first_difference(own, other) is not None:
            return False
        return bool(own) or _words(ours.failure) == _words(theirs.failure)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._session.close()
        self._folder.cleanup()


def _words(failure: Failure | None) -> str | None:
    """The failure without what differs between two solutions: line numbers and limits."""
    if failure is None or failure.kind == "missed":  # what a judge says of lines without a failure
        return None
    if failure.kind in ("time", "memory"):
        return "endless"  # an endless loop that collects data can hit either limit first
    if failure.kind != "raised":
        return failure.kind
    head, marker, rest = failure.text.removeprefix(UNUSABLE).partition(" in line ")
    return f"{head}:{rest.partition(':')[2]}".rstrip(":") if marker else head
