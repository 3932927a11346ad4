"""Checks the exercises themselves, for their authors and for the tests.

An exercise without faults fulfils these rules:

    the engine's own source passes every behaviour, and so every visible test
    the stub fails every behaviour with its TODO
    every known mistake fails, and gets its own hint and no other hint
    every behaviour catches a mistake; otherwise the behaviour may check nothing
    there are at least five mistakes, and three hints
    a recording of "find the bug" is that of its fault, and differs from the engine's in time
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from minivllm.lessons.checker.bugs.judge import RULES, events_in, right_answer, tests_of
from minivllm.lessons.checker.bugs.record import record
from minivllm.lessons.checker.cases.behaviour import VISIBLE
from minivllm.lessons.checker.catalogue import NUM_HINTS, Exercise, Mistake
from minivllm.lessons.checker.check import check
from minivllm.lessons.checker.child.session import Worker
from minivllm.lessons.checker.holes import stub
from minivllm.lessons.checker.result import Result

MIN_MISTAKES, MIN_WRONG_ANSWERS = 5, 3
PATIENCE = 0.3


def dev_check(exercise: Exercise) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="minivllm-dev-check-") as folder:
        find = _faults_of_bug if exercise.finds_bug else _faults
        yield from (f"{exercise.name}: {fault}." for fault in find(exercise, Path(folder)))
    if len(exercise.hints) != NUM_HINTS or not all(exercise.hints):
        yield f"{exercise.name}: there must be {NUM_HINTS} hints."


def _faults(exercise: Exercise, folder: Path) -> Iterator[str]:
    if len(exercise.mistakes) < MIN_MISTAKES:
        yield f"there must be at least {MIN_MISTAKES} mistakes"
    file, caught = folder / exercise.student_file, {VISIBLE}

    def checked(source: str) -> Result:
        file.write_text(source, encoding="utf-8")
        return check(exercise, file, patience=PATIENCE, worker=worker)

    with Worker(exercise) as worker:
        for found in checked(exercise.source).behaviours:
            if not found.passed:
                yield f"the engine's own source fails {found.behaviour.name!r}: {found.counterexample}"
        for found in checked(stub(exercise)).behaviours:
            if found.failure is None or found.failure.kind != "todo":
                yield f"the stub does not fail {found.behaviour.name!r} with its TODO: {found.failure}"
        for mistake in exercise.mistakes:
            result = checked(mistake.source(exercise.source))
            caught |= {found.behaviour.name for found in result.behaviours if not found.passed}
            if fault := _fault_of_mistake(mistake, result):
                yield f"{mistake.name} {fault}"
    for behaviour in exercise.behaviours():
        if behaviour.name not in caught:
            yield f"no mistake fails {behaviour.name!r}"


def _fault_of_mistake(own: Mistake, result: Result) -> str:
    if not own.believes or not own.hint:
        return "has no misconception or no hint"
    if result.passed:
        return "passes"
    if not result.fitting:
        return f"is not recognized ({ {outcome.failure for outcome in result.behaviours} })"
    others = [other.name for other in result.fitting if other != own]
    return f"cannot be distinguished from {' and '.join(others)}" if others else ""


def _faults_of_bug(exercise: Exercise, folder: Path) -> Iterator[str]:
    right, answers = right_answer(exercise), [(miss.step, miss.rule) for miss in exercise.mistakes]
    recorded = events_in(exercise.recording)
    if len({right, *answers}) <= max(len(answers), MIN_WRONG_ANSWERS):
        yield f"there must be {MIN_WRONG_ANSWERS} wrong answers, and no two answers alike"
    for step, rule in answers:
        if rule not in RULES or not 1 <= step <= recorded[-1]["step"]:
            yield f"no step {step} or no rule {rule}"
    if not tests_of(exercise, right):
        yield "nothing in the step of the answer puts its rule to the test"
    record(exercise, folder / "fault.jsonl")
    record(exercise, folder / "engine.jsonl", has_fault=False)
    fault, engine = events_in(folder / "fault.jsonl"), events_in(folder / "engine.jsonl")
    for path, events in zip(exercise.recordings, (fault, engine), strict=False):
        kinds = [
            sorted((line["step"], line["ev"]) for line in old) for old in (events_in(path), events)
        ]
        if kinds[0] != kinds[1]:
            yield f"the engine gives another recording than {path.name}"
    pairs = zip(fault, engine, strict=False)
    if not any(a != b for a, b in pairs if a["step"] <= right.step):
        yield "the engine without the fault does the same up to the answer's step"
