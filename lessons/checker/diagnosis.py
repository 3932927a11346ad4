"""Finds the misconception behind a failing solution.

A known mistake fits if it fails in the same way on the small cases on which the student's code
failed, passes where that code passes, and fails at the same lines on a sample of further cases.

A wrong diagnosis is worse than no diagnosis. So an unfinished solution is not diagnosed, and if two
mistakes fit, the report names neither (`check.Result.misconception`).
"""

import tempfile
from itertools import islice
from pathlib import Path

from minivllm.lessons.checker.cases.behaviour import Behaviour
from minivllm.lessons.checker.cases.draw import Case
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.child.sandbox import Failure, Reply, Session, Submission
from minivllm.lessons.checker.child.student import UNUSABLE
from minivllm.lessons.checker.mistakes import Mistake
from minivllm.lessons.checker.search import Counterexample, cases_of, compare_lines, compare_with

SAMPLE = 3
"""For a failing behaviour, compare only a third of the cases: differences show soon."""
_NOT_DIAGNOSED = ("todo", "time", "died", "memory", "output", "exit", "channel")


class KnownMistakes:
    """Runs all known mistakes of an exercise in one process; a context manager."""

    def __init__(self, exercise: Exercise) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="minivllm-mistakes-")
        self._mistakes = exercise.mistakes
        source = exercise.source
        for mistake in self._mistakes:
            self.file_of(mistake).write_text(mistake.source(source), encoding="utf-8")
        self._session = Session(exercise, Submission(Path(self._folder.name)))

    def file_of(self, mistake: Mistake) -> Path:
        return Path(self._folder.name) / f"{mistake.name}.py"

    def diagnose(
        self,
        found: list[Counterexample | None],
        behaviours: list[Behaviour],
        submission: Session,
        seed: int,
    ) -> list[Mistake]:
        """The mistakes that fail in the same way as the submission.

        found: for each behaviour, a failing case, or None if the submission passes
        submission: runs further cases
        """
        pairs = list(zip(behaviours, found, strict=True))
        failing = [(behaviour, one) for behaviour, one in pairs if one is not None]
        if not failing or any(
            one.failure is not None and one.failure.kind in _NOT_DIAGNOSED for _, one in failing
        ):
            return []
        alike = [
            mistake
            for mistake in self._mistakes
            if all(self._does_the_same(mistake, *one) for one in failing)
        ]
        for behaviour, one in pairs:
            # If the submission passes a behaviour, a mistake must pass all of its cases.
            num_cases = behaviour.examples if one is None else behaviour.examples // SAMPLE
            for case, expected in islice(cases_of(behaviour, seed), num_cases) if alike else ():
                theirs = (
                    None if one is None else compare_with(expected, behaviour, submission, case)
                )
                alike = [
                    mistake
                    for mistake in alike
                    if self._fails_alike(mistake, behaviour, case, expected, theirs)
                ]
        return alike

    def ask(self, mistake: Mistake, behaviour: Behaviour, case: Case) -> Reply:
        file = str(self.file_of(mistake))
        return self._session.ask({"file": file, "behaviour": behaviour.key, "case": case})

    def _does_the_same(self, mistake: Mistake, behaviour: Behaviour, one: Counterexample) -> bool:
        actual, failure = self.ask(mistake, behaviour, one.case)
        return behaviour.first_difference(one.actual, actual) is None and _words(failure) == _words(
            one.failure
        )

    def _fails_alike(
        self,
        mistake: Mistake,
        behaviour: Behaviour,
        case: Case,
        expected: list[str],
        theirs: Counterexample | None,
    ) -> bool:
        """Whether both differ from the engine at the same line in the same way, or both pass."""
        actual, failure = self.ask(mistake, behaviour, case)
        ours = compare_lines(expected, behaviour, case, actual, failure)
        if ours is None or theirs is None:
            return ours is theirs
        begin = slice(ours.index, ours.index + 1)
        if (
            ours.index != theirs.index
            or behaviour.first_difference(ours.actual[begin], theirs.actual[begin]) is not None
        ):
            return False
        # Compare only the first different line: later lines depend on how the code is written.
        return bool(ours.actual[begin]) or _words(ours.failure) == _words(theirs.failure)

    def __enter__(self) -> "KnownMistakes":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._session.close()
        self._folder.cleanup()


def _words(failure: Failure | None) -> str | None:
    """The failure without what differs between two solutions: line numbers and limits."""
    if failure is not None and failure.kind in ("time", "memory"):
        return "endless"  # an endless loop that collects data can hit either limit first
    if failure is None or failure.kind == "missed":  # what a judge says of lines without a failure
        return None
    if failure.kind != "raised":
        return failure.kind
    head, marker, rest = failure.text.removeprefix(UNUSABLE).partition(" in line ")
    return f"{head}:{rest.partition(':')[2]}".rstrip(":") if marker else head
