"""The child process for student code: loads the code, then reports what happens in each case.

It reads one line of JSON per question and writes one line per answer. It limits memory,
file size, printed output and the processor time per question. The timer raises an exception, whose
traceback shows the line of an endless loop.

All wrong solutions of an exercise (`overlays`) share one process. This process imports slow
modules, such as torch and Triton, only once, and forks for each solution.

An `except Exception` in the student's code must not catch the timer's exception, and `sys.exit`
must not end the worker. So the timer raises a `BaseException`, and the worker catches every
exception. If that fails, the parent's clock ends the process.
"""

import errno
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from minivllm.lessons.checker.catalogue import Exercise, find_exercise
from minivllm.lessons.checker.child import plug
from minivllm.lessons.checker.child.limits import (
    MAX_FILE_BYTES,
    TimeIsUpError,
    limit_forks,
    take_limits,
)

MAX_LINES = 20_000
LOADING = 2
"""Time limit for imports, as a multiple of the time limit for a case."""


def main(argv: list[str]) -> None:
    """argv: exercise name, student's file, and the `plugged` field of `sandbox.Submission`."""
    name, file, kind = argv
    answers, questions = os.fdopen(os.dup(1), "w"), os.fdopen(os.dup(0))
    exercise = find_exercise(name)
    take_limits(exercise.memory_mb)
    if kind == "overlays":
        _answer_in_forks(exercise, questions, answers)
    else:
        worker = _Worker(exercise, Path(file), answers)
        failure = worker.load(is_overlay=kind == "overlay")
        _send(answers, [], failure)
        if failure is None:
            worker.answer_all(questions)
    # Exit at once: do not wait for threads or run exit handlers of the student's code.
    os._exit(0)


def _send(answers: TextIO, lines: list[str], failure: dict[str, str] | None) -> None:
    answers.write(json.dumps({"lines": lines, "failure": failure}) + "\n")
    answers.flush()


# ---- many small files: one process per file, but common imports only once ----


def _answer_in_forks(exercise: Exercise, questions: Iterable[str], answers: TextIO) -> None:
    """Answer questions about several files. Forks a process at the first question about a file."""
    for name in plug.imports_of(exercise):
        with suppress(ImportError):  # if a fork needs the module, the fork reports the error
            import_module(name)
    _send(answers, [], None)
    forks: dict[str, Any] = {}
    for line in questions:
        name = json.loads(line)["file"]
        if name not in forks:
            forks[name] = _fork(exercise, Path(name))
        with suppress(BrokenPipeError):
            forks[name].write(line)
            forks[name].flush()
        answer = forks[name].readline()
        if answer:
            answers.write(answer)
            answers.flush()
        else:
            del forks[name]
            _send(answers, [], {"kind": "died", "text": f"the process of {name} ended"})


def _fork(exercise: Exercise, file: Path) -> Any:
    ours, theirs = socket.socketpair()
    if os.fork():
        theirs.close()
        return ours.makefile("rw")
    ours.close()
    channel = theirs.makefile("rw")
    worker = _Worker(exercise, file, channel)
    failure = worker.load(is_overlay=True)
    if failure is None:
        worker.answer_all(channel)
    elif channel.readline():
        _send(channel, [], failure)
    os._exit(0)


class _Worker:
    def __init__(self, exercise: Exercise, file: Path, answers: TextIO) -> None:
        self._exercise = exercise
        self._file = file
        self._answers = answers
        self._pid = os.getpid()

    def load(self, is_overlay: bool) -> dict[str, str] | None:
        """Load the file as the engine's module, and import the rest. Returns a failure, or None."""

        def load() -> None:
            limit_forks()
            install = plug.overlay if is_overlay else plug.plug_in
            self._module = install(self._exercise.module, self._file)
            if not is_overlay:  # the visible tests import the module by its file name
                sys.modules.setdefault(self._file.stem, self._module)
            self._behaviours = self._exercise.behaviours_module()
            self._intrusions = plug.intrusions(self._module, self._file)
            self._fingerprint = plug.fingerprint(self._module)

        return self._limited(load, LOADING * self._exercise.seconds)

    def answer_all(self, questions: Iterable[str]) -> None:
        for line in questions:
            self._answer(json.loads(line))

    def _answer(self, question: dict[str, Any]) -> None:
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
        _send(self._answers, lines, failure or self._patched())

    def _run_visible(self, file: str, lines: list[str]) -> None:
        from minivllm.lessons.checker.visible import run_visible_tests

        lines += run_visible_tests(Path(file))

    def _patched(self) -> dict[str, str] | None:
        now = plug.fingerprint(self._module)
        changed = [
            name for name, value in self._fingerprint.items() if now.get(name) != value
        ] + self._intrusions
        if not changed:
            return None
        return {
            "kind": "patched",
            "text": f"it changes {changed[0]}, which is not part of the exercise",
        }

    def _limited(self, run: Any, seconds: float) -> dict[str, str] | None:
        """Call `run` with a limit on processor time. Returns a failure, or None."""
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            run()
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException as error:
            signal.setitimer(signal.ITIMER_PROF, 0)
            self._end_if_forked()
            return self._failure(error, seconds)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        self._end_if_forked()
        return None

    def _end_if_forked(self) -> None:
        """End a process that the student's code has forked, because it would answer, too."""
        if os.getpid() != self._pid:
            os._exit(0)

    def _failure(self, error: BaseException, seconds: float) -> dict[str, str]:
        where = plug.where_in(self._file, error)
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
            "text": f"its result or its side effects cannot be used: {what}{message}",
        }

    def _not_in_it(self, error: BaseException) -> str | None:
        """If the error is a name that the student's module lacks, return that name, else None."""
        if isinstance(error, ImportError) and error.name == self._exercise.module:
            # Parse "cannot import name 'X' from 'Y'": Python before 3.12 has no field for the name.
            return next(iter(re.findall(r"cannot import name '(\w+)'", str(error))), None)
        if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
            return error.name if error.obj.__name__ == self._exercise.module else None
        return None


if __name__ == "__main__":
    main(sys.argv[1:])
