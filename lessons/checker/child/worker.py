"""Runs submissions: reads a question per line, and writes one answer per line.

Each file has a process of its own, forked at the first question about it. So slow modules, such as
torch and Triton, are imported once for a submission and all known mistakes. The limits are for
accidents: memory, file size, printed output, processes, and time. A timer for processor time raises
an exception, whose traceback shows the line of an endless loop; a process that waits is ended.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from minivllm.lessons.checker.catalogue import Exercise, find_exercise
from minivllm.lessons.checker.child.imports import imports_of
from minivllm.lessons.checker.child.student import MAX_FILE_BYTES, StudentModule, TimeIsUpError

MAX_FORKS = 5
"""Processes that one process may start, with those that its ancestors had started before."""
WALL_FACTOR = 8
"""Wall-clock seconds per second of processor time: computers can be busy."""
IMPATIENCE = 0.25
"""Share of the time limit that remains after the first timeout, probably an endless loop."""
MAX_ANSWER_BYTES = 32 << 20


def main(exercise: Exercise) -> None:
    source, known, ahead = exercise.source, exercise.mistakes, imports_of(exercise)
    sys.modules[exercise.module] = None  # modules that import it wait for the student's file
    for name in ahead:
        with suppress(ImportError):
            import_module(name)
    del sys.modules[exercise.module]
    processes = {wrong.name: _Process(exercise, wrong.source(source).encode) for wrong in known}
    mistakes = list(processes.values())
    try:
        for line in sys.stdin:
            name = (question := json.loads(line))["file"]
            process = processes.setdefault(name, _Process(exercise, Path(name).read_bytes))
            if process in mistakes:  # a diagnosis asks about all of them: load them on all cores
                while mistakes:
                    mistakes.pop().start()
            if "behaviour" in question:
                print(json.dumps(process.ask(question)), flush=True)
            else:
                processes.pop(name).end()
    finally:
        for process in processes.values():
            process.end()


class _Process:
    """A process with one file, seen from outside. It runs on a copy, in a folder of its own."""

    def __init__(self, exercise: Exercise, read: Callable[[], bytes]) -> None:
        self._exercise, self._read, self._seconds = exercise, read, exercise.seconds
        self._process: Any = None

    def ask(self, question: dict[str, Any]) -> list[Any]:
        question["seconds"], patience = self._seconds, WALL_FACTOR * self._seconds
        lines: list[str] = []
        try:
            if self._process is None:
                self.start()
            self._channel.send_bytes(json.dumps(question).encode())
            if not self._channel.poll(patience):
                raise TimeoutError
            lines, failure = json.loads(self._channel.recv_bytes(MAX_ANSWER_BYTES))
        except TimeoutError:
            failure = ["time", f"it did not answer in {patience:g} seconds: what does it wait for?"]
        except (EOFError, ConnectionError):
            self._process.join()
            status = self._process.exitcode
            how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
            failure = ["died", f"its process ended {how}"]
        except (OSError, ValueError, TypeError):
            failure = ["channel", "it wrote into the channel of the checker's own answers"]
        if failure is not None and failure[0] == "time":
            self._seconds = IMPATIENCE * self._exercise.seconds
        if failure is not None and failure[0] not in ("raised", "todo"):
            self.end()
        return [lines, failure]

    def start(self) -> None:
        Path.home().mkdir(exist_ok=True)  # the code can remove it
        copy = Path(mkdtemp(dir=Path.home())) / self._exercise.student_file
        copy.write_bytes(self._read())
        fork = get_context("fork")
        self._channel, theirs = fork.Pipe()
        parts = self._exercise, copy, theirs, self._channel
        self._process = fork.Process(target=_run, args=parts, daemon=True)
        self._process.start()
        theirs.close()

    def end(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):  # with all processes that it has started
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.join()
            self._channel.close()
            self._process = None


# ---- in the process of a file ----


def _run(exercise: Exercise, file: Path, channel: Connection, outside: Connection) -> None:
    os.setsid()
    outside.close()
    os.chdir(file.parent)
    _take_limits(exercise.memory_mb)
    own = os.getpid()
    student = StudentModule(exercise, file, _processor_time)
    while os.getpid() == own:  # a process that the code has forked must not answer, too
        question = json.loads(channel.recv_bytes())
        answer = student.answer(question)
        if os.getpid() == own:
            channel.send_bytes(json.dumps(answer).encode())
    os._exit(0)


def _take_limits(memory_mb: int) -> None:
    # On Linux, limit private memory and not the address space, which includes libraries.
    memory = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    limits = {memory: memory_mb << 20, resource.RLIMIT_FSIZE: MAX_FILE_BYTES}
    for kind, most in {**limits, resource.RLIMIT_CORE: 0}.items():
        resource.setrlimit(kind, (most, most))
    output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, output), (2, output)):
        os.dup2(source, number)
    signal.signal(signal.SIGPROF, _time_is_up)
    starts = "os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen"
    allowed = iter(range(MAX_FORKS))

    def count(event: str, _: object) -> None:
        if event in starts and next(allowed, None) is None:
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


if __name__ == "__main__":
    main(find_exercise(sys.argv[1]))
