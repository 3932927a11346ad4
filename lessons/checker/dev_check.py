"""Checks the exercises themselves, for their authors and for the tests.

Yields one sentence per fault. An exercise without faults fulfils these rules:

    the engine's own source passes every behaviour and every visible test
    the stub fails every behaviour and every visible test with its TODO
    every known mistake fails, and gets its own hint and no other hint
    every behaviour catches a mistake; otherwise the behaviour may check nothing
    there are at least five mistakes, and three hints
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from minivllm.lessons.checker.bugs.judge import dev_check_hunt
from minivllm.lessons.checker.catalogue import NUM_HINTS, Exercise
from minivllm.lessons.checker.check import run_behaviours
from minivllm.lessons.checker.child.sandbox import Submission
from minivllm.lessons.checker.diagnosis import KnownMistakes
from minivllm.lessons.checker.holes import stub
from minivllm.lessons.checker.mistakes import Mistake
from minivllm.lessons.checker.result import Result

MIN_MISTAKES = 5
PATIENCE = 0.3
"""Seconds to shrink a failing case: enough to distinguish the mistakes."""


def dev_check(exercise: Exercise) -> Iterator[str]:
    if exercise.is_hunt:
        yield from dev_check_hunt(exercise)
        return
    yield from _files(exercise)
    with tempfile.TemporaryDirectory(prefix="minivllm-dev-check-") as folder:
        file = Path(folder) / exercise.student_file
        file.write_text(exercise.source, encoding="utf-8")
        yield from _reference(run_behaviours(exercise, Submission(file)))
        file.write_text(stub(exercise), encoding="utf-8")
        yield from _stub(run_behaviours(exercise, Submission(file)))
    caught: set[str] = set()
    with KnownMistakes(exercise) as known:
        for mistake in exercise.mistakes:
            submission = Submission(known.file_of(mistake))
            result = run_behaviours(exercise, submission, patience=PATIENCE, known=known)
            caught |= {
                outcome.behaviour.name for outcome in result.behaviours if not outcome.passed
            }
            yield from _mistake(mistake, result)
    for outcome in result.behaviours:
        if outcome.behaviour.name not in caught:
            yield f"{exercise.name}: no mistake fails {outcome.behaviour.name!r}."


def _files(exercise: Exercise) -> Iterator[str]:
    if len(exercise.hints) != NUM_HINTS or not all(exercise.hints):
        yield f"{exercise.name}: there must be {NUM_HINTS} hints."
    if len(exercise.mistakes) < MIN_MISTAKES:
        yield f"{exercise.name}: there must be at least {MIN_MISTAKES} mistakes."


def _reference(result: Result) -> Iterator[str]:
    name = result.exercise.name
    if result.could_not_run is not None:
        yield f"{name}: the engine's own source cannot be run: {result.could_not_run.text}."
        return
    for failed in result.visible:
        yield f"{name}: the engine's own source fails a visible test: {failed}."
    for outcome in result.behaviours:
        if not outcome.passed:
            yield (
                f"{name}: the engine's own source fails {outcome.behaviour.name!r} on"
                f" {outcome.counterexample.case}."
            )


def _stub(result: Result) -> Iterator[str]:
    name = result.exercise.name
    if result.could_not_run is not None:
        yield f"{name}: the stub cannot be loaded: {result.could_not_run.text}."
        return
    if not result.visible:
        yield f"{name}: the stub passes the visible tests."
    for outcome in result.behaviours:
        failure = None if outcome.passed else outcome.counterexample.failure
        if failure is None or failure.kind != "todo":
            yield f"{name}: the stub does not fail {outcome.behaviour.name!r} with its TODO."


def _mistake(own: Mistake, result: Result) -> Iterator[str]:
    name = f"{result.exercise.name}: {own.name}"
    if not own.believes or not own.hint:
        yield f"{name} has no misconception or no hint."
    if result.passed:
        yield f"{name} passes."
    elif not result.fitting:
        kinds = {
            outcome.counterexample.failure for outcome in result.behaviours if not outcome.passed
        }
        yield f"{name} is not recognized ({kinds})."
    elif result.misconception != own:
        others = [other.name for other in result.fitting if other != own]
        yield f"{name} cannot be distinguished from {' and '.join(others)}."
