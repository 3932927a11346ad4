"""`StudentModule`: loads a student's file as the engine's module, and reports what happens in cases.

It limits nothing itself: `worker` is a process with limits, and the site's playground has a web
worker. Every failure is a sentence, with the line of the student's file if there is one.
"""

import errno
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.child import imports
from minivllm.lessons.checker.holes import functions_in
from minivllm.lessons.checker.result import UNUSABLE

MAX_LINES = 20_000
LOADING = 2
"""Time limit for imports, as a multiple of the time limit for a case."""
MAX_FILE_BYTES = 1 << 20
"""Of a file that the code writes, and of what it prints."""

Limit = Callable[[float], AbstractContextManager[None]]
"""Seconds -> a context that raises `TimeIsUpError` after them."""


class TimeIsUpError(BaseException):
    """`except Exception` must not catch it."""


class StudentModule:
    def __init__(self, exercise: Exercise, file: Path, limit: Limit) -> None:
        self._exercise, self._file, self._limit = exercise, file, limit
        self._given = functions_in(exercise.source).keys() - set(exercise.holes)
        self._not_loaded = self._limited(self._load, LOADING * exercise.seconds)

    def _load(self) -> None:
        """Load the file as the engine's module, and import the rest."""
        imports.import_files({self._exercise.module: self._file})
        # The visible tests import the module by its file name.
        own_name = self._exercise.student_file.removesuffix(".py")
        sys.modules.setdefault(own_name, sys.modules[self._exercise.module])
        tests = self._exercise.folder / "visible_test.py"
        self._observe = {known.key: known.observe for known in self._exercise.behaviours()}
        self._observe["visible"] = lambda case: run_visible_tests(tests)

    def answer(self, question: dict[str, Any]) -> list[Any]:
        """The lines of a case, and None or a failure: its kind and its text."""
        lines: list[str] = []
        if self._not_loaded is not None or question["behaviour"] is None:
            return [lines, self._not_loaded]

        def ask() -> None:
            for line in self._observe[question["behaviour"]](question["case"]):
                lines.append(str(line))
                if len(lines) > MAX_LINES:
                    raise TimeIsUpError

        return [lines, self._limited(ask, question["seconds"])]

    def _limited(self, run: Callable[[], None], seconds: float) -> list[str] | None:
        try:
            with self._limit(seconds):
                run()
                sys.stdout.flush()
                sys.stderr.flush()
        except BaseException as error:  # SystemExit, too
            return self._failure(error, seconds)
        return None

    def _failure(self, error: BaseException, seconds: float) -> list[str]:
        where = imports.where_in(self._file, error, self._given)
        memory, most = self._exercise.memory_mb, MAX_FILE_BYTES >> 20
        match error:
            case TimeIsUpError():
                loop = "is there an endless loop?"
                return ["time", f"it took more than {seconds:g} seconds{where}: {loop}"]
            case MemoryError():
                return ["memory", f"it took more than {memory} MB of memory{where}"]
            case OSError(errno=errno.EFBIG):
                return ["output", f"it printed or wrote more than {most} MB{where}"]
            case SystemExit() | KeyboardInterrupt():
                return ["exit", f"it called sys.exit({getattr(error, 'code', '')}){where}"]
            case NotImplementedError() if str(error).startswith("TODO "):
                return ["todo", f"not written yet{where}"]
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        what = f"{type(error).__name__}{where}" + (f": {said}"[:300] if said else "")
        return ["raised", what if where else UNUSABLE + what]


def run_visible_tests(file: Path) -> Iterator[str]:
    """Run tests without pytest: yield `name: passed`, or `name: what failed`, for each."""
    spec = spec_from_file_location("visible_test", file)
    module = sys.modules["visible_test"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    lines = file.read_text(encoding="utf-8").splitlines()
    for name, test in list(vars(module).items()):
        if name.startswith("test_"):
            try:
                test()
                yield f"{name}: passed"
            except NotImplementedError:
                raise  # not written yet
            except Exception as error:
                number = imports.lines_in(file, error)[-1][1]
                said = f" ({type(error).__name__}{f': {error}' if str(error) else ''})"
                yield f"{name}: line {number} failed: {lines[number - 1].strip()}{said}"
