"""Check one submission: the behaviours that pass, and a small failing case for each of the others.

A check must take ten seconds at most. So only the first failing case is shrunk for long, because
the student fixes that failure first.
"""

import time
from contextlib import nullcontext

from minivllm.lessons.checker.bugs.judge import judge
from minivllm.lessons.checker.cases.behaviour import Behaviour, behaviours_of
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.child.sandbox import Session, Submission
from minivllm.lessons.checker.diagnosis import KnownMistakes
from minivllm.lessons.checker.mistakes import Mistake
from minivllm.lessons.checker.result import BehaviourResult, Result
from minivllm.lessons.checker.search import Counterexample, cases_of, find_counterexample
from minivllm.lessons.checker.visible import PASSED, names_of_tests

PATIENCE = 2.0
"""Seconds to shrink the first failure."""
IMPATIENCE = 0.15
"""Each later failure is shrunk for this fraction of `PATIENCE`."""


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
        return judge(exercise, submission.file, seed=seed)
    known = KnownMistakes(exercise) if diagnoses else None
    with known or nullcontext():
        return run_behaviours(exercise, submission, seed=seed, patience=patience, known=known)


def run_behaviours(
    exercise: Exercise,
    submission: Submission,
    *,
    seed: int = 0,
    patience: float = PATIENCE,
    known: KnownMistakes | None = None,
    session: Session | None = None,
) -> Result:
    """Run all checks. Raises `ExerciseError` if this machine cannot run the exercise.

    patience: seconds to shrink the first failure; 0 shrinks none
    known: to compare with a failing submission
    session: runs the submission; None starts a child process for it
    """
    exercise.require_what_it_needs()
    begin = time.monotonic()
    behaviours = behaviours_of(exercise.behaviours_module())
    visible: list[str] = []
    fitting: list[Mistake] = []
    with session or Session(exercise, submission) as session:
        failure = session.start()
        if failure is not None:
            nothing = Counterexample({}, [], [], 0, failure)
            results = [BehaviourResult(behaviour, nothing) for behaviour in behaviours]
        else:
            visible = _visible(exercise, session)
            results = _behaviours(behaviours, session, seed, patience)
            if known is not None:
                found = [outcome.counterexample for outcome in results]
                fitting = known.diagnose(found, behaviours, session, seed)
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
