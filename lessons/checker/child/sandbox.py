"""`Session`: starts and controls the child process that runs a submission.

The session asks the child case by case and kills it if it misbehaves. The child gets a scratch
folder, an empty environment and limits (see `worker`); the session measures wall-clock time. That
is for accidents: who does not trust a file grades in a container (docs/teach/grading.md).

If the child dies, only the current behaviour fails: the next question starts a new child.
"""

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.child.student import LOADING

WALL_FACTOR = 6
"""Allowed wall-clock seconds per allowed second of processor time: computers can be busy."""
WALL_SECONDS = 30.0
"""Additional allowed wall-clock seconds, but only until a submission times out once.

The limit on processor time stops code that computes; this limit stops code that waits.
"""
IMPATIENCE = 0.25
"""Fraction of the time limit that remains after the first timeout, probably an endless loop."""
MAX_ANSWER_BYTES = 32 << 20


class Failure(NamedTuple):
    kind: str
    """One of: raised, todo, time, memory, output, exit, channel, died, missed."""
    text: str
    file: str = ""
    """The student's file in which it happened, if several run together."""


class Reply(NamedTuple):
    lines: list[str]
    failure: Failure | None


class Submission(NamedTuple):
    file: Path
    """Loaded as the engine's module; or a folder of such files, and each question names one."""


class Child:
    """A process with limits: one line of JSON per question, and one line per answer."""

    def __init__(self, command: list[str], seconds: float) -> None:
        """command: what Python runs; seconds: limit of processor time for a question"""
        if not hasattr(os, "fork"):
            raise ExerciseError(
                "Exercises need Linux or macOS for their limits; on Windows run them in WSL."
            )
        self._command = command
        self._scratch = tempfile.TemporaryDirectory(
            prefix="minivllm-exercise-", ignore_cleanup_errors=True
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._usual_seconds = self._seconds = seconds
        self._wall_seconds = WALL_SECONDS

    def start(self) -> Failure | None:
        """Start the process unless it runs. Returns a failure if the file cannot be loaded."""
        if self._process is not None:
            return None
        scratch = self._scratch.name
        os.makedirs(scratch, exist_ok=True)  # the code can remove it
        self._rest = b""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", *self._command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=scratch,
            env={
                "PATH": os.defpath,
                "HOME": scratch,
                "TMPDIR": scratch,
                "OMP_NUM_THREADS": "1",
                "PYTHONHASHSEED": "0",
            },
            start_new_session=True,
        )
        loaded = self._receive(LOADING * self._usual_seconds)
        if loaded.failure is not None:
            self._end()
        return loaded.failure

    def ask(self, question: dict[str, Any]) -> Reply:
        failure = self.start()
        if failure is not None:
            return Reply([], failure)
        try:
            self._process.stdin.write(
                json.dumps({"seconds": self._seconds, **question}).encode() + b"\n"
            )
            self._process.stdin.flush()
        except BrokenPipeError:
            return self._died()
        reply = self._receive(self._seconds)
        if reply.failure is not None and reply.failure.kind == "time":
            self._seconds, self._wall_seconds = IMPATIENCE * self._usual_seconds, 0.0
        if reply.failure is not None and reply.failure.kind not in ("raised", "todo"):
            self._end()  # after a failure, the state of the process cannot be trusted
        return reply

    def _receive(self, seconds: float) -> Reply:
        patience = self._wall_seconds + WALL_FACTOR * seconds
        deadline = time.monotonic() + patience
        pipe = self._process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    self._end()
                    return Reply(
                        [],
                        Failure(
                            "time",
                            f"it did not answer in {patience:g} seconds: does it wait for"
                            " something?",
                        ),
                    )
                data = os.read(pipe.fileno(), 1 << 16)
                if not data:
                    return self._died()
                self._rest += data
                if len(self._rest) > MAX_ANSWER_BYTES:
                    self._end()
                    return Reply(
                        [], Failure("output", "it produced more output than the checker reads")
                    )
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            answer = json.loads(line)
            failure = answer["failure"]
            return Reply(
                list(map(str, answer["lines"])), None if failure is None else Failure(**failure)
            )
        except (ValueError, TypeError, KeyError):
            self._end()
            return Reply(
                [], Failure("channel", "it wrote into the channel of the checker's own answers")
            )

    def _died(self) -> Reply:
        status = self._process.poll()
        if status is None:
            status = self._process.wait()
        self._end()
        if status < 0:
            return Reply([], Failure("died", f"its process was ended by {_signal_name(-status)}"))
        return Reply([], Failure("died", f"its process exited with status {status}"))

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):  # the process and all its children have ended already
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def close(self) -> None:
        self._end()
        self._scratch.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class Session(Child):
    """Runs one submission. The child gets a copy of the file, so that it keeps what it hands in."""

    def __init__(self, exercise: Exercise, submission: Submission) -> None:
        self._original = self._file = submission.file.resolve()
        super().__init__([], exercise.seconds)
        if self._original.is_file():
            self._file = Path(self._scratch.name, exercise.student_file)
        worker = "minivllm.lessons.checker.child.worker"
        self._command = ["-m", worker, exercise.name, str(self._file)]

    def start(self) -> Failure | None:
        if self._process is None and self._file != self._original:
            self._file.parent.mkdir(exist_ok=True)
            shutil.copy(self._original, self._file)
        return super().start()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
