"""`Session`: the checker's side of the process that runs submissions of an exercise.

Behind it is `worker`, which forks a process with limits for each file.
"""

import json
import os
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.result import Failure

IMPATIENCE = 0.25
"""Share of the time limit that remains after the first timeout, probably an endless loop."""


class Reply(NamedTuple):
    lines: list[str]
    failure: Failure | None


class Session(AbstractContextManager["Session"]):
    def __init__(self, exercise: Exercise, file: Path | None = None) -> None:
        """file: the submission, unless each question names one"""
        if not hasattr(os, "fork"):
            raise ExerciseError(
                "Exercises need Linux or macOS for their limits; on Windows use WSL."
            )
        self._exercise, self._file = exercise, file
        self._seconds = exercise.seconds
        self._worker: Popen[str] | None = None
        self._scratch = TemporaryDirectory(prefix="minivllm-exercise-", ignore_cleanup_errors=True)

    def start(self) -> Failure | None:
        return self.ask(None).failure

    def ask(self, behaviour: str | None, case: Any = None, file: Path | None = None) -> Reply:
        """What happens in a case. behaviour: its key; None only loads the file"""
        question = {"behaviour": behaviour, "case": case, "seconds": self._seconds}
        question["file"] = str((file or self._file).absolute())
        self._worker = self._worker or self._start_worker()
        try:
            print(json.dumps(question), file=self._worker.stdin, flush=True)
            lines, failure = json.loads(self._worker.stdout.readline())
        except (BrokenPipeError, ValueError) as error:
            raise ExerciseError("The process that runs submissions has ended.") from error
        if failure is not None and failure[0] == "time":
            self._seconds = IMPATIENCE * self._exercise.seconds
        return Reply(lines, None if failure is None else Failure(*failure))

    def _start_worker(self) -> "Popen[str]":
        scratch, worker = self._scratch.name, f"{__package__}.worker"
        folders = {"PATH": os.defpath, "HOME": scratch, "TMPDIR": scratch}
        command = [sys.executable, "-I", "-B", "-m", worker, self._exercise.name]
        env = {**folders, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        pipes = {"stdin": PIPE, "stdout": PIPE, "stderr": DEVNULL}
        return Popen(command, **pipes, cwd=scratch, env=env, text=True)

    def __exit__(self, *exc_info: object) -> None:
        if self._worker is not None:
            self._worker.communicate()  # closes its questions, and so it ends
        self._scratch.cleanup()
