"""`check_exercise`: the checker's cases and behaviours, without its child process.

The engine's lines come from the engine as it is, the student's from a second import with the
student's file plugged in. What the command has beyond that: limits of memory and processor time, a
search for the smallest case with hypothesis, and the known misconceptions. Here the web worker is
the limit, and the shortest of the failing cases is shown. Students' code runs in the checker's own
interpreter, so this check is for learning and not for grades.
"""

import json
import sys
import time
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minivllm.lab.playground.fresh import another_engine
from minivllm.lab.playground.limit import stop_after
from minivllm.lessons.checker.bugs.judge import judge
from minivllm.lessons.checker.bugs.rules import ANSWER_STUB
from minivllm.lessons.checker.cases.behaviour import Behaviour
from minivllm.lessons.checker.catalogue import Exercise, exercises, find_exercise
from minivllm.lessons.checker.child import plug
from minivllm.lessons.checker.child.sandbox import Failure
from minivllm.lessons.checker.child.student import MAX_FILE_BYTES, StudentModule
from minivllm.lessons.checker.holes import stub
from minivllm.lessons.checker.report import describe_failure, hint_for, not_loaded
from minivllm.lessons.checker.result import BehaviourResult, Result
from minivllm.lessons.checker.search import NOT_SHRUNK, Counterexample, cases_of, compare_lines
from minivllm.lessons.checker.visible import PASSED

SEED = 0
Asked = tuple[list[str], Failure | None]


def exercises_here() -> list[Exercise]:
    """The exercises that a browser can check: all but those with tensors."""
    return [exercise for exercise in exercises() if exercise.is_hunt or _runs_here(exercise)]


def start_of(name: str) -> dict[str, Any]:
    """What a student begins with: a module with holes, or a recording and the answer's form."""
    exercise = find_exercise(name)
    text = ANSWER_STUB if exercise.is_hunt else stub(exercise)
    recording = exercise.recording.read_text(encoding="utf-8") if exercise.is_hunt else None
    return {"text": text, "hints": exercise.hints, "recording": recording}


def check_exercise(name: str, text: str, folder: Path) -> dict[str, Any]:
    """Check a student's module, and return the report as plain data."""
    if len(text) > MAX_FILE_BYTES:
        return {"error": f"The file has more than {MAX_FILE_BYTES >> 20} MB: shorten it."}
    begin = time.monotonic()
    exercise = find_exercise(name)
    file = folder / exercise.student_file
    file.write_text(text, encoding="utf-8")
    if exercise.is_hunt:
        return _as_json(judge(exercise, file))
    behaviours = exercise.behaviours()
    cases = {one.key: list(cases_of(one, SEED)) for one in behaviours}
    with another_engine():
        student = _Student(exercise, file.absolute())
        failure = student.load()
        visible = [] if failure else student.failed_visible_tests()
        found = [
            _compare(one, cases[one.key], student)
            if failure is None
            else Counterexample({}, [], [], 0, failure)
            for one in behaviours
        ]
        student.forget()
    results = [BehaviourResult(one, case) for one, case in zip(behaviours, found, strict=True)]
    seconds = time.monotonic() - begin
    return _as_json(Result(exercise, file, failure, visible, results, [], seconds, SEED))


class _Student:
    """The `StudentModule` of the second import; its exceptions are known only by name."""

    def __init__(self, exercise: Exercise, file: Path) -> None:
        module = import_module(StudentModule.__module__)
        second = import_module("minivllm.lessons.checker.catalogue").find_exercise(exercise.name)
        limit = partial(stop_after, file=str(file), error=module.TimeIsUpError)
        self._exercise, self._file = exercise, file
        self._module: StudentModule = module.StudentModule(second, file, limit)

    def load(self) -> Failure | None:
        failure = self._module.load()
        return None if failure is None else Failure(**failure)

    def ask(self, **question: Any) -> Asked:
        asked = {"seconds": self._exercise.seconds, **json.loads(json.dumps(question))}
        lines, failure = self._module.answer(asked)
        return lines, None if failure is None else Failure(**failure)

    def failed_visible_tests(self) -> list[str]:
        lines, failure = self.ask(visible=str(self._exercise.folder / "visible_test.py"))
        failed = [line for line in lines if not line.endswith(f": {PASSED}")]
        return failed if failure is None else [*failed, f"the tests stopped: {failure.text}"]

    def forget(self) -> None:
        """Remove what `load` and the visible tests have left outside of minivllm."""
        for name in (self._file.stem, "visible_test"):
            sys.modules.pop(name, None)


def _runs_here(exercise: Exercise) -> bool:
    try:
        if find_spec(exercise.module) is None:
            return False
    except ModuleNotFoundError:
        return False
    return not plug.uses_tensors(exercise)


def _compare(
    behaviour: Behaviour, cases: list[tuple[Any, list[str]]], student: _Student
) -> Counterexample | None:
    """The failing case with the shortest text; None if all cases agree."""
    best: Counterexample | None = None
    for case, expected in cases:
        if best is not None and len(repr(case)) >= len(repr(best.case)):
            continue
        answer = student.ask(behaviour=behaviour.key, case=case)
        found = compare_lines(expected, behaviour, case, *answer)
        if found is None:
            continue
        best = found
        if found.failure is not None and found.failure.kind in NOT_SHRUNK:
            break
    return best


def _as_json(result: Result) -> dict[str, Any]:
    if result.could_not_run is not None:
        return {"error": f"Your file cannot be loaded: {not_loaded(result.could_not_run)}"}
    failed = result.first_failure
    if failed is None:
        failure = []
    elif result.exercise.is_hunt:
        failure = [failed.counterexample.failure.text]
    else:
        failure = list(describe_failure(failed))
    return {
        "passed": result.passed,
        "untouched": result.is_untouched,
        "score": result.score,
        "max_score": result.max_score,
        "seconds": result.seconds,
        "behaviours": [
            {"name": one.behaviour.name, "passed": one.passed} for one in result.behaviours
        ],
        "visible": None if result.exercise.is_hunt else result.visible,
        "failure": failure,
        "hint": None if failed is None else hint_for(result, failed),
    }
