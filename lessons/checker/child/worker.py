"""The child process for student code: loads the code, then reports what happens in each case.

It reads one line of JSON per question and writes one line per answer. The limits are for accidents:
memory, file size, printed output, processes, and processor time per question. The timer raises an
exception, whose traceback shows the line of an endless loop.

All known mistakes of an exercise are a folder of files that share one process. It imports slow
modules, such as torch and Triton, only once, and forks for each file.

An `except Exception` in the student's code must not catch the timer's exception, and `sys.exit`
must not end the worker. So the timer raises a `BaseException`, and the worker catches every
exception. If that fails, the parent's clock ends the process.
"""

import json
import os
import resource
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
from minivllm.lessons.checker.child.student import MAX_FILE_BYTES, StudentModule, TimeIsUpError

MAX_FORKS = 5
"""Processes that one process may start, with those that its ancestors had started before."""


def main(argv: list[str]) -> None:
    """argv: exercise name, and the student's file or a folder of mistakes"""
    exercise, file = find_exercise(argv[0]), Path(argv[1])
    answers, questions = os.fdopen(os.dup(1), "w"), os.fdopen(os.dup(0))
    take_limits(exercise.memory_mb)
    if file.is_dir():
        _answer_in_forks(exercise, questions, answers)
    else:
        worker = _Worker(exercise, file, answers)
        failure = worker.load()
        send(answers, [], failure)
        if failure is None:
            worker.answer_all(questions)
    # Exit at once: do not wait for threads or run exit handlers of the student's code.
    os._exit(0)


# ---- the limits ----


def take_limits(memory_mb: int) -> None:
    """Limit memory, files and output; let the timer `ITIMER_PROF` raise `TimeIsUpError`.

    What the code prints goes to output.txt in the working directory.
    """
    # On Linux, limit private memory and not the address space, which includes libraries.
    memory = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    resource.setrlimit(memory, (memory_mb << 20, memory_mb << 20))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGPROF, _time_is_up)


def limit_forks() -> None:
    """Let each process of the code start few others: at most 2 ** `MAX_FORKS` in all, for root too.

    There is no way to remove an audit hook.
    """
    num_started = 0

    def count(event: str, _: object) -> None:
        nonlocal num_started
        if event in ("os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen"):
            num_started += 1
            if num_started > MAX_FORKS:
                raise BlockingIOError(f"a submission may start at most {MAX_FORKS} processes")

    sys.addaudithook(count)


def _time_is_up(*_: object) -> None:
    raise TimeIsUpError


@contextmanager
def _processor_time(seconds: float) -> Iterator[None]:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


# ---- questions and answers ----


def send(answers: TextIO, lines: list[str], failure: dict[str, str] | None) -> None:
    answers.write(json.dumps({"lines": lines, "failure": failure}) + "\n")
    answers.flush()


def _answer_in_forks(exercise: Exercise, questions: Iterable[str], answers: TextIO) -> None:
    """Answer questions about several files. Forks a process at the first question about a file."""
    for name in plug.imports_of(exercise):
        with suppress(ImportError):  # if a fork needs the module, the fork reports the error
            import_module(name)
    send(answers, [], None)
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
            send(answers, [], {"kind": "died", "text": f"the process of {name} ended"})


def _fork(exercise: Exercise, file: Path) -> Any:
    ours, theirs = socket.socketpair()
    if os.fork():
        theirs.close()
        return ours.makefile("rw")
    ours.close()
    channel = theirs.makefile("rw")
    worker = _Worker(exercise, file, channel)
    failure = worker.load()
    if failure is None:
        worker.answer_all(channel)
    elif channel.readline():
        send(channel, [], failure)
    os._exit(0)


class _Worker:
    """Answers the questions of one channel."""

    def __init__(self, exercise: Exercise, file: Path, answers: TextIO) -> None:
        self._student = StudentModule(exercise, file, _processor_time)
        self._answers = answers
        self._pid = os.getpid()

    def load(self) -> dict[str, str] | None:
        limit_forks()
        failure = self._student.load()
        self._end_if_forked()
        return failure

    def answer_all(self, questions: Iterable[str]) -> None:
        for line in questions:
            lines, failure = self._student.answer(json.loads(line))
            self._end_if_forked()
            send(self._answers, lines, failure)

    def _end_if_forked(self) -> None:
        """End a process that the student's code has forked, because it would answer, too."""
        if os.getpid() != self._pid:
            os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
