"""`StudentModule`: loads a student's file as the engine's module, and reports what happens in cases.

It limits nothing itself: `worker` is a process with limits, and the site's playground has a web
worker. Every failure is a sentence, with the line of the student's file if there is one.
"""

import errno
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.child import plug
from minivllm.lessons.checker.visible import run_visible_tests

MAX_LINES = 20_000
UNUSABLE = "its result or its side effects cannot be used: "
"""Prefix for errors raised outside the student's file, from what it returned or changed."""
LOADING = 2
"""Time limit for imports, as a multiple of the time limit for a case."""
MAX_FILE_BYTES = 1 << 20
"""Limit of a file that the code writes, and of what it prints."""

Limit = Callable[[float], AbstractContextManager[None]]
"""Seconds -> a context that raises `TimeIsUpError` after them."""


class TimeIsUpError(BaseException):
    """A question took more than its limit of processor time."""


class StudentModule:
    def __init__(self, exercise: Exercise, file: Path, limit: Limit) -> None:
        self._exercise = exercise
        self._file = file
        self._limit = limit
        self._given = plug.given_functions(exercise)

    def load(self) -> dict[str, str] | None:
        """Load the file as the engine's module, and import the rest. Returns a failure, or None."""

        def load() -> None:
            module = plug.plug_in(self._exercise.module, self._file)
            # The visible tests import the module by its file name.
            sys.modules.setdefault(self._exercise.student_file.removesuffix(".py"), module)
            self._behaviours = self._exercise.behaviours_module()

        return self._limited(load, LOADING * self._exercise.seconds)

    def answer(self, question: dict[str, Any]) -> tuple[list[str], dict[str, str] | None]:
        """Run one case or the visible tests. Returns what happened, and a failure or None."""
        lines: list[str] = []

        def ask() -> None:
            if "visible" in question:
                self._run_visible(question["visible"], lines)
            else:
                for line in getattr(self._behaviours, question["behaviour"])(question["case"]):
                    lines.append(str(line))
                    if len(lines) > MAX_LINES:
                        raise TimeIsUpError

        failure = self._limited(ask, question["seconds"])
        return lines, failure

    def _run_visible(self, file: str, lines: list[str]) -> None:
        lines += run_visible_tests(Path(file))

    def _limited(self, run: Any, seconds: float) -> dict[str, str] | None:
        """Call `run` with a time limit. Returns a failure, or None."""
        try:
            with self._limit(seconds):
                run()
                sys.stdout.flush()
                sys.stderr.flush()
        except BaseException as error:
            return self._failure(error, seconds)
        return None

    def _failure(self, error: BaseException, seconds: float) -> dict[str, str]:
        where = plug.where_in(self._file, error, self._given)
        if isinstance(error, TimeIsUpError):
            return {
                "kind": "time",
                "text": (
                    f"it took more than {seconds:g} seconds{where}: is there an endless loop?"
                ),
            }
        if isinstance(error, MemoryError):
            return {
                "kind": "memory",
                "text": f"it took more than {self._exercise.memory_mb} MB of memory{where}",
            }
        if isinstance(error, OSError) and error.errno == errno.EFBIG:
            return {
                "kind": "output",
                "text": f"it printed or wrote more than {MAX_FILE_BYTES >> 20} MB{where}",
            }
        if isinstance(error, SystemExit | KeyboardInterrupt):
            return {
                "kind": "exit",
                "text": f"it called sys.exit({getattr(error, 'code', '')}){where}",
            }
        if isinstance(error, NotImplementedError) and str(error).startswith("TODO "):
            return {"kind": "todo", "text": f"not written yet{where}"}
        if needed := self._not_in_it(error):
            if where:
                text = (
                    f"it replaces {self._exercise.module}, so it cannot import {needed}"
                    f" from there{where}"
                )
            else:
                text = f"the engine needs {needed} from it, but it is missing"
            return {"kind": "raised", "text": text}
        what = type(error).__name__
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        message = f": {said}"[:300] if said else ""
        if where:
            return {"kind": "raised", "text": f"{what}{where}{message}"}
        return {
            "kind": "raised",
            "text": f"{UNUSABLE}{what}{message}",
        }

    def _not_in_it(self, error: BaseException) -> str | None:
        """If the error is a name that the student's module lacks, return that name, else None."""
        if isinstance(error, ImportError) and error.name == self._exercise.module:
            # Parse "cannot import name 'X' from 'Y'": Python before 3.12 has no field for the name.
            return next(iter(re.findall(r"cannot import name '(\w+)'", str(error))), None)
        if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
            return error.name if error.obj.__name__ == self._exercise.module else None
        return None
