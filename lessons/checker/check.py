"""Check one submission: the behaviours that pass, and a small failing case for each of the others.

A check must take ten seconds at most. So only the first failing case is shrunk for long, because
the student fixes that failure first.
"""

import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from minivllm.lessons.checker.cases.behaviour import Behaviour, behaviours_of
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.child.sandbox import Failure, Session, Submission
from minivllm.lessons.checker.diagnosis import Misconception, WrongSolutions
from minivllm.lessons.checker.search import Counterexample, cases_of, find_counterexample
from minivllm.lessons.checker.visible import PASSED, names_of_tests

PATIENCE = 2.0
"""Seconds to shrink the first failure."""
IMPATIENCE = 0.15
"""Each later failure is shrunk for this fraction of `PATIENCE`."""


class BehaviourResult(NamedTuple):
    behaviour: Behaviour
    counterexample: Counterexample | None
    told: Sequence[str] = ()
    """What there is to say about the result, right or wrong."""

    @property
    def passed(self) -> bool:
        return self.counterexample is None


class Result(NamedTuple):
    exercise: Exercise
    file: Path
    could_not_run: Failure | None
    """Why the file could not be loaded; None if it was loaded."""
    visible: list[str]
    """The failed visible tests, each with the line that failed."""
    behaviours: list[BehaviourResult]
    fitting: list[Misconception]
    """The misconceptions of known wrong solutions that fail the same cases in the same way."""
    seconds: float
    seed: int

    @property
    def misconception(self) -> Misconception | None:
        """The misconception, if exactly one fits."""
        return self.fitting[0] if len(self.fitting) == 1 else None

    @property
    def passed(self) -> bool:
        return (
            self.could_not_run is None
            and not self.visible
            and all(one.passed or one.behaviour.is_bonus for one in self.behaviours)
        )

    @property
    def visible_score(self) -> int:
        """1 if all visible tests pass: without it, a failed test could get the full score."""
        return 0 if self.visible or self.could_not_run is not None else 1

    @property
    def score(self) -> int:
        """How many behaviours pass, and 1 for the visible tests."""
        return sum(outcome.passed for outcome in self.behaviours) + self.visible_score

    @property
    def max_score(self) -> int:
        return max_score_of(len(self.behaviours))

    @property
    def first_failure(self) -> BehaviourResult | None:
        return next((outcome for outcome in self.behaviours if not outcome.passed), None)

    @property
    def is_untouched(self) -> bool:
        """Whether the check fails because the student has written nothing yet."""
        failed = [
            outcome.counterexample.failure
            for outcome in self.behaviours
            if outcome.counterexample is not None
        ]
        return bool(failed) and all(
            failure is not None and failure.kind == "todo" for failure in failed
        )

    @property
    def exit_status(self) -> int:
        """0: passed, 1: failed, 2: could not run."""
        if self.could_not_run is not None:
            return 2
        return 0 if self.passed else 1


def max_score_of(num_behaviours: int) -> int:
    return num_behaviours + 1  # all visible tests together count as one


def check(
    exercise: Exercise,
    submission: Submission,
    *,
    seed: int = 0,
    diagnoses: bool = True,
    patience: float = PATIENCE,
) -> Result:
    """Run all checks. On a failure, look for the known misconception behind it."""
    if exercise.is_hunt:
        from minivllm.lessons.checker.bugs.judge import judge

        return judge(exercise, submission.file, seed=seed)
    wrong = WrongSolutions(exercise) if diagnoses else None
    with wrong or nullcontext():
        return run_behaviours(exercise, submission, seed=seed, patience=patience, wrong=wrong)


def run_behaviours(
    exercise: Exercise,
    submission: Submission,
    *,
    seed: int = 0,
    patience: float = PATIENCE,
    wrong: WrongSolutions | None = None,
) -> Result:
    """Run all checks. Raises `ExerciseError` if this machine cannot run the exercise.

    patience: seconds to shrink the first failure
    wrong: known wrong solutions, to compare with a failing submission
    """
    exercise.require_what_it_needs()
    begin = time.monotonic()
    behaviours = behaviours_of(exercise.behaviours_module())
    visible: list[str] = []
    fitting: list[Misconception] = []
    with Session(exercise, submission) as session:
        failure = session.start()
        if failure is not None:
            nothing = Counterexample({}, [], [], 0, failure)
            results = [BehaviourResult(behaviour, nothing) for behaviour in behaviours]
        else:
            if submission.plugged == "module":
                visible = _visible(exercise, session)
            results = _behaviours(behaviours, session, seed, patience)
            if wrong is not None:
                found = [outcome.counterexample for outcome in results]
                fitting = wrong.diagnose(found, behaviours, session, seed)
    seconds = time.monotonic() - begin
    return Result(exercise, submission.file, failure, visible, results, fitting, seconds, seed)


def _behaviours(
    behaviours: list[Behaviour], session: Session, seed: int, patience: float
) -> list[BehaviourResult]:
    results: list[BehaviourResult] = []
    left = patience
    for behaviour in behaviours:
        found = find_counterexample(behaviour, session, seed=seed, shrink_seconds=left)
        results.append(BehaviourResult(behaviour, found, _told(behaviour, session, seed)))
        left = left if found is None else IMPATIENCE * patience
    return results


def _told(behaviour: Behaviour, session: Session, seed: int) -> list[str]:
    if behaviour.tell is None:
        return []
    case, expected = next(iter(cases_of(behaviour, seed)))
    answer = session.ask({"behaviour": behaviour.key, "case": case})
    # Lines that cannot be read, or too few of them, have failed already.
    readable = answer.failure is None and len(answer.lines) == len(expected)
    return behaviour.tell(case, expected, answer.lines) if readable else []


def _visible(exercise: Exercise, session: Session) -> list[str]:
    file = exercise.folder / "visible_test.py"
    answer = session.ask({"visible": str(file)})
    failed = [line for line in answer.lines if not line.endswith(f": {PASSED}")]
    if answer.failure is not None:
        return [*failed, f"the visible tests: {answer.failure.text}"]
    if [line.partition(":")[0] for line in answer.lines] != names_of_tests(file):
        # An answer that the code itself has written can leave tests out.
        return [*failed, "the visible tests: not every test has a result"]
    return failed
