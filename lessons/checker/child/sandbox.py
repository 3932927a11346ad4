"""`Session`: the process in which one submission runs, seen from outside; asked case by case, ended
when it misbehaves.

It gets a scratch folder of its own, an empty environment, limits (see `worker`), and a wall clock
kept out here. Where `bubblewrap` is installed and allowed it also gets no network and no file it
could write but its scratch folder (`walls`). What the limits do not stop stands in docs/teach.md.

The easy thing to get wrong is a dead process: it must cost its own behaviour and no other, so the
next question starts a new one; and a submission that dies at once must not be started for ever by
whoever shrinks a case.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.child import walls
from minivllm.lessons.checker.child.worker import LOADING

WALL_FACTOR = 6
"""Seconds on the clock for one of processor time: machines of a class are busy."""
WALL_SECONDS = 30.0
"""And so many more, until a submission has run out of time once: processor time ends what computes,
this ends what waits.
"""
IMPATIENCE = 0.25
"""How much of the processor time it gets for each question after that: whoever made a loop without
an end waits for all of them.
"""
MAX_ANSWER_BYTES = 32 << 20


class Failure(NamedTuple):
    """Why there is no whole answer."""

    kind: str
    """raised, todo, time, memory, output, exit, patched, died"""
    text: str


class Told(NamedTuple):
    """What the student's process told of one case."""

    lines: list[str]
    failure: Failure | None


class Submission(NamedTuple):
    """A file to run in the engine's place."""

    file: Path
    plugged: Literal["module", "overlay", "overlays"] = "module"
    """overlay: one of `wrong/`, only what is wrong in it. overlays: all of that folder; each
    question names its `file`.
    """


class Session:
    """Runs a submission; a context manager."""

    def __init__(self, exercise: Exercise, submission: Submission) -> None:
        if not hasattr(os, "fork"):
            raise ExerciseError(
                "Exercises need Linux or macOS for their limits; on Windows run them in WSL."
            )
        self._exercise = exercise
        self._submission = submission
        self._scratch = tempfile.TemporaryDirectory(prefix="minivllm-exercise-")
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._seconds = exercise.seconds
        self._wall_seconds = WALL_SECONDS

    def start(self) -> Failure | None:
        """Start it, unless it runs; what went wrong in loading the file."""
        if self._process is not None:
            return None
        submission, scratch = self._submission, self._scratch.name
        command = [sys.executable, "-I", "-B", "-m", "minivllm.lessons.checker.child.worker"]
        command += [self._exercise.name, str(submission.file.resolve()), submission.plugged]
        self._rest = b""
        self._process = subprocess.Popen(
            [*walls.before(scratch), *command],
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
        loaded = self._receive(LOADING * self._exercise.seconds)
        if loaded.failure is not None:
            self._end()
        return loaded.failure

    def ask(self, question: dict[str, Any]) -> Told:
        """What happens in one case."""
        failure = self.start()
        if failure is not None:
            return Told([], failure)
        try:
            self._process.stdin.write(
                json.dumps({"seconds": self._seconds, **question}).encode() + b"\n"
            )
            self._process.stdin.flush()
        except BrokenPipeError:
            return self._died()
        told = self._receive(self._seconds)
        if told.failure is not None and told.failure.kind == "time":
            self._seconds, self._wall_seconds = IMPATIENCE * self._exercise.seconds, 0.0
        if told.failure is not None and told.failure.kind not in ("raised", "todo"):
            self._end()  # what it left behind is not to be trusted
        return told

    def _receive(self, seconds: float) -> Told:
        patience = self._wall_seconds + WALL_FACTOR * seconds
        deadline = time.monotonic() + patience
        pipe = self._process.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    self._end()
                    return Told(
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
                    return Told([], Failure("output", "it told more than can be read"))
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            answer = json.loads(line)
            failure = answer["failure"]
            return Told(
                list(map(str, answer["lines"])), None if failure is None else Failure(**failure)
            )
        except (ValueError, TypeError, KeyError):
            self._end()
            return Told(
                [], Failure("patched", "it wrote into the channel that carries our own answers")
            )

    def _died(self) -> Told:
        status = self._process.poll()
        if status is None:
            status = self._process.wait()
        self._end()
        if status > 128 and walls.program() is not None:
            # bubblewrap tells as a shell does which signal ended the process behind
            # it
            status = 128 - status
        if status < 0:
            return Told([], Failure("died", f"its process was ended by {_signal_name(-status)}"))
        return Told([], Failure("died", f"its process ended itself with exit status {status}"))

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):  # it has ended, and so has all that it started
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def close(self) -> None:
        self._end()
        self._scratch.cleanup()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
