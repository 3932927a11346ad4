"""`check_exercise`: the checker, with a second import of the engine in place of a child process.

The engine's lines come from the engine as it is, the student's from a second import with the
student's file plugged in. In place of limits and a search for the smallest case, the web worker is
the limit, and the first failing case is shown. Students' code runs in the checker's own
interpreter, so this check is for learning and not for grades.
"""

import json
import sys
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minivllm.lab.playground.fresh import another_engine
from minivllm.lab.playground.limit import stop_after
from minivllm.lessons.checker.bugs.judge import judge
from minivllm.lessons.checker.catalogue import Exercise, exercises, find_exercise
from minivllm.lessons.checker.check import run_behaviours
from minivllm.lessons.checker.child import imports
from minivllm.lessons.checker.child.session import Reply
from minivllm.lessons.checker.child.student import MAX_FILE_BYTES, StudentModule
from minivllm.lessons.checker.report import describe_failure, hint_for, not_loaded
from minivllm.lessons.checker.result import Failure, Result
from minivllm.lessons.checker.search import cases_of
from minivllm.lessons.checker.workspace import start_of as file_at_start

SEED = 0


def exercises_here() -> list[Exercise]:
    """The exercises that a browser can check: all but those with tensors."""
    return [exercise for exercise in exercises() if exercise.finds_bug or _runs_here(exercise)]


def _runs_here(exercise: Exercise) -> bool:
    try:
        return find_spec(exercise.module) is not None and not imports.uses_tensors(exercise)
    except ModuleNotFoundError:
        return False


def start_of(name: str) -> dict[str, Any]:
    """What a student begins with: a module with holes, or a recording and the answer's form."""
    exercise = find_exercise(name)
    recording = exercise.recording.read_text(encoding="utf-8") if exercise.finds_bug else None
    return {"text": file_at_start(exercise), "hints": exercise.hints, "recording": recording}


def check_exercise(name: str, text: str, folder: Path) -> dict[str, Any]:
    """Check a student's module, and return the report as plain data."""
    if len(text) > MAX_FILE_BYTES:
        return {"error": f"The file has more than {MAX_FILE_BYTES >> 20} MB: shorten it."}
    exercise = find_exercise(name)
    file = folder / exercise.student_file
    file.write_text(text, encoding="utf-8")
    if exercise.finds_bug:
        return _as_json(judge(exercise, file))
    with _SecondEngine(exercise, file.absolute()) as second:
        return _as_json(run_behaviours(exercise, file, second.ask, SEED, patience=0))


class _SecondEngine(ExitStack):
    """A checker's worker. From the first question on, the engine is a second import of it."""

    def __init__(self, exercise: Exercise, file: Path) -> None:
        super().__init__()
        self._exercise, self._file = exercise, file

    def ask(self, behaviour: str | None, case: Any = None) -> Reply:
        if behaviour is None:
            self._load()
        question = {"seconds": self._exercise.seconds, "behaviour": behaviour, "case": case}
        # Through JSON, as in a child process: the student's code must not change a case.
        lines, failure = self._module.answer(json.loads(json.dumps(question)))
        return Reply(lines, None if failure is None else Failure(*failure))

    def _load(self) -> None:
        for behaviour in self._exercise.behaviours():
            list(cases_of(behaviour, SEED))  # the lines of the engine as it is
        self.enter_context(another_engine())
        # What a file and the visible tests leave outside of minivllm.
        for name in (self._file.stem, "visible_test"):
            self.callback(sys.modules.pop, name, None)
        module = import_module(StudentModule.__module__)
        second = import_module(find_exercise.__module__).find_exercise(self._exercise.name)
        limit = partial(stop_after, file=str(self._file), error=module.TimeIsUpError)
        self._module: StudentModule = module.StudentModule(second, self._file, limit)


def _as_json(result: Result) -> dict[str, Any]:
    if result.could_not_run is not None:
        return {"error": f"Your file cannot be loaded: {not_loaded(result.could_not_run)}"}
    failed = result.first_failure
    return {
        "passed": result.passed,
        "untouched": result.is_untouched,
        "score": result.score,
        "max_score": result.max_score,
        "seconds": result.seconds,
        "behaviours": [
            {"name": check.behaviour.name, "passed": check.passed} for check in result.behaviours
        ],
        "failure": [] if failed is None else list(describe_failure(failed)),
        "hint": None if failed is None else hint_for(result, failed),
    }
