"""Check one submission: the behaviours that pass, and a small failing case for each of the others.

Only the first failing case is shrunk for long, because the student fixes that failure first.
"""

import time
from contextlib import nullcontext
from pathlib import Path

from minivllm.lessons.checker.bugs.judge import judge
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.child.session import Ask, Worker
from minivllm.lessons.checker.diagnosis import diagnose
from minivllm.lessons.checker.result import BehaviourResult, Result, result_without_cases
from minivllm.lessons.checker.search import cases_of, find_counterexample

PATIENCE = 2.0
"""Seconds to shrink the first failure; each later one is shrunk for a fraction of it."""
IMPATIENCE = 0.15


def check(
    exercise: Exercise,
    file: Path,
    *,
    seed: int = 0,
    patience: float = PATIENCE,
    worker: Worker | None = None,
) -> Result:
    """Run all checks, and look for the known misconception behind a failure.

    worker: shared by the checks of several files
    """
    if exercise.finds_bug:
        return judge(exercise, file)
    shared = nullcontext(worker) if worker else Worker(exercise)
    with shared as worker, worker.opened(file) as ask:
        result = run_behaviours(exercise, file, ask, seed, patience)
        return result._replace(fitting=diagnose(result, ask, worker))


def run_behaviours(
    exercise: Exercise, file: Path, ask: Ask, seed: int = 0, patience: float = PATIENCE
) -> Result:
    begin, left = time.monotonic(), patience
    behaviours, results = exercise.behaviours(), []
    for behaviour in behaviours:  # import what they need while the worker does so, too
        next(cases_of(behaviour, seed))
    if (failure := ask(None).failure) is not None:
        return result_without_cases(exercise, file, failure, seed)
    for behaviour in behaviours:
        found = find_counterexample(behaviour, ask, seed=seed, shrink_seconds=left)
        left = left if found is None else IMPATIENCE * patience
        told = []
        if behaviour.tell is not None:
            case, expected = next(cases_of(behaviour, seed))
            told = behaviour.tell(case, expected, ask(behaviour.key, case).lines)
        results.append(BehaviourResult(behaviour, found, told))
    return Result(exercise, file, None, results, [], time.monotonic() - begin, seed)
