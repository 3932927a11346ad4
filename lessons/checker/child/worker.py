"""The child process for student code: loads the code, then reports what happens in each case.

It reads one line of JSON per question and writes one line per answer. It limits memory,
file size, printed output and the processor time per question (`limits`), and where the code may
write (`fence`). The timer raises an exception, whose traceback shows the line of an endless loop.

All wrong solutions of an exercise (`overlays`) share one process. This process imports slow
modules, such as torch and Triton, only once, and forks for each solution.

An `except Exception` in the student's code must not catch the timer's exception, and `sys.exit`
must not end the worker. So the timer raises a `BaseException`, and the worker catches every
exception. If that fails, the parent's clock ends the process.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from minivllm.lessons.checker.catalogue import Exercise, find_exercise
from minivllm.lessons.checker.child import plug
from minivllm.lessons.checker.child.fence import Fence
from minivllm.lessons.checker.child.limits import limit_forks, take_limits
from minivllm.lessons.checker.child.student import StudentModule


def main(argv: list[str]) -> None:
    """argv: exercise name, student's file, and the `plugged` field of `sandbox.Submission`."""
    name, file, kind = argv
    answers, questions = os.fdopen(os.dup(1), "w"), os.fdopen(os.dup(0))
    exercise = find_exercise(name)
    take_limits(exercise.memory_mb)
    fence = Fence(os.getcwd(), {file})
    if kind == "overlays":
        _answer_in_forks(exercise, fence, questions, answers)
    else:
        worker = _Worker(exercise, Path(file), fence, answers)
        failure = worker.load(is_overlay=kind == "overlay")
        _send(answers, [], failure)
        if failure is None:
            worker.answer_all(questions)
    # Exit at once: do not wait for threads or run exit handlers of the student's code.
    os._exit(0)


@contextmanager
def _processor_time(seconds: float) -> Iterator[None]:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _send(answers: TextIO, lines: list[str], failure: dict[str, str] | None) -> None:
    answers.write(json.dumps({"lines": lines, "failure": failure}) + "\n")
    answers.flush()


# ---- many small files: one process per file, but common imports only once ----


def _answer_in_forks(
    exercise: Exercise, fence: Fence, questions: Iterable[str], answers: TextIO
) -> None:
    """Answer questions about several files. Forks a process at the first question about a file."""
    for name in plug.imports_of(exercise):
        with suppress(ImportError):  # if a fork needs the module, the fork reports the error
            import_module(name)
    _send(answers, [], None)
    forks: dict[str, Any] = {}
    for line in questions:
        name = json.loads(line)["file"]
        if name not in forks:
            forks[name] = _fork(exercise, Path(name), fence)
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


def _fork(exercise: Exercise, file: Path, fence: Fence) -> Any:
    ours, theirs = socket.socketpair()
    if os.fork():
        theirs.close()
        return ours.makefile("rw")
    ours.close()
    channel = theirs.makefile("rw")
    worker = _Worker(exercise, file, fence, channel)
    failure = worker.load(is_overlay=True)
    if failure is None:
        worker.answer_all(channel)
    elif channel.readline():
        _send(channel, [], failure)
    os._exit(0)


class _Worker:
    """Answers the questions of one channel."""

    def __init__(self, exercise: Exercise, file: Path, fence: Fence, answers: TextIO) -> None:
        self._student = StudentModule(exercise, file, _processor_time)
        self._fence = fence
        self._answers = answers
        self._pid = os.getpid()

    def load(self, is_overlay: bool) -> dict[str, str] | None:
        limit_forks()
        failure = self._student.load(is_overlay)
        self._end_if_forked()
        return self._fence.failure or failure

    def answer_all(self, questions: Iterable[str]) -> None:
        for line in questions:
            lines, failure = self._student.answer(json.loads(line))
            self._end_if_forked()
            _send(self._answers, lines, self._fence.failure or failure)

    def _end_if_forked(self) -> None:
        """End a process that the student's code has forked, because it would answer, too."""
        if os.getpid() != self._pid:
            os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
