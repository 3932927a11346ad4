"""Check one submission: the behaviours that pass, and a small failing case for each of the others.

Only the first failing case is shrunk for long, because the student fixes that failure first.
"""

import time
from pathlib import Path

from minivllm.lessons.checker.bugs.judge import judge
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.child.session import Session
from minivllm.lessons.checker.diagnosis import KnownMistakes
from minivllm.lessons.checker.result import BehaviourResult, Result, result_without_cases
from minivllm.lessons.checker.search import cases_of, find_counterexample

PATIENCE = 2.0
"""Seconds to shrink the first failure; each later one is shrunk for a fraction of it."""
IMPATIENCE = 0.15


def check(exercise: Exercise, file: Path, *, seed: int = 0, patience: float = PATIENCE) -> Result:
    """Run all checks, and look for the known misconception behind a failure."""
    if exercise.finds_bug:
        return judge(exercise, file)
    with KnownMistakes(exercise) as known:
        return run_behaviours(exercise, file, seed=seed, patience=patience, known=known)


def run_behaviours(
    exercise: Exercise,
    file: Path,
    *,
    seed: int = 0,
    patience: float = PATIENCE,
    known: KnownMistakes | None = None,
    session: Session | None = None,
) -> Result:
    """Run all checks. Raises `ExerciseError` if this machine cannot run the exercise.

    patience: seconds to shrink the first failure; session: by default, a child process
    """
    exercise.require_what_it_needs()
    begin, left = time.monotonic(), patience
    results: list[BehaviourResult] = []
    with session or Session(exercise, file) as session:
        if (failure := session.start()) is not None:
            return result_without_cases(exercise, file, failure, seed)
        for behaviour in exercise.behaviours():
            found = find_counterexample(behaviour, session, seed=seed, shrink_seconds=left)
            left = left if found is None else IMPATIENCE * patience
            told = []
            if behaviour.tell is not None:
                case, expected = next(cases_of(behaviour, seed))
                told = behaviour.tell(case, expected, session.ask(behaviour.key, case).lines)
            results.append(BehaviourResult(behaviour, found, told))
        fitting = [] if known is None else known.diagnose(results, session, seed)
    return Result(exercise, file, None, results, fitting, time.monotonic() - begin, seed)
