"""`Worker`: the checker's side of the process that runs submissions of an exercise.

That process is `worker`, which forks a process with limits for each file.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.result import Failure


class Reply(NamedTuple):
    lines: list[str]
    failure: Failure | None


Ask = Callable[..., Reply]
"""(a behaviour's key and a case, or None to load the file) -> what happens"""


class Worker(AbstractContextManager["Worker"]):
    """Runs files of an exercise. It begins with its imports while the checker does its own."""

    def __init__(self, exercise: Exercise) -> None:
        exercise.require_what_it_needs()
        if not hasattr(os, "fork"):
            raise ExerciseError("Exercises need Linux or macOS; on Windows use WSL.")
        self.exercise = exercise
        self._scratch = TemporaryDirectory(prefix="minivllm-exercise-", ignore_cleanup_errors=True)
        self._process = self._start()

    def _start(self) -> "Popen[str]":
        home, pipes = self._scratch.name, {"stdin": PIPE, "stdout": PIPE, "stderr": DEVNULL}
        env = {"PATH": os.defpath, "HOME": home, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-I", "-B", "-m", f"{__package__}.worker", self.exercise.name]
        return Popen(command, **pipes, cwd=home, env={**env, "TMPDIR": home}, text=True)

    def ask(self, file: str, behaviour: str | None = None, case: Any = None) -> Reply:
        """What a file (its path, or a known mistake's name) does in a case or when loaded."""
        try:
            self._send({"file": file, "behaviour": behaviour, "case": case})
            lines, failure = json.loads(self._process.stdout.readline())
        except (BrokenPipeError, ValueError):
            self._process = self._start()
            return Reply([], Failure("died", "the process that runs submissions has ended"))
        return Reply(lines, None if failure is None else Failure(*failure))

    @contextmanager
    def opened(self, file: Path) -> Iterator[Ask]:
        """`ask` for one file. At the end, its process is ended."""
        name = str(file.absolute())
        try:
            yield partial(self.ask, name)
        finally:
            with suppress(BrokenPipeError):
                self._send({"file": name})

    def _send(self, question: dict[str, Any]) -> None:
        print(json.dumps(question), file=self._process.stdin, flush=True)

    def __exit__(self, *exc_info: object) -> None:
        self._process.communicate()  # closes its questions, and so it ends
        self._scratch.cleanup()
