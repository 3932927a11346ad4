"""`Session`: the checker's side of the process that runs submissions of an exercise.

It asks case by case. Behind it is `worker`, which never runs student code itself: it forks a
process with limits for each file, and forks again if that process has ended.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, Self

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.result import Failure

IMPATIENCE = 0.25
"""Fraction of the time limit that remains after the first timeout, probably an endless loop."""


class Reply(NamedTuple):
    lines: list[str]
    failure: Failure | None


class Session:
    """A context manager. The processes start at the first question."""

    def __init__(self, exercise: Exercise, file: Path | None = None) -> None:
        """file: the submission; None if each question names one"""
        if not hasattr(os, "fork"):
            where = "need Linux or macOS for their limits; on Windows run them in WSL"
            raise ExerciseError(f"Exercises {where}.")
        self._exercise, self._file = exercise, file
        self._seconds = exercise.seconds
        self._worker: subprocess.Popen[str] | None = None
        self._scratch = tempfile.TemporaryDirectory(
            prefix="minivllm-exercise-", ignore_cleanup_errors=True
        )

    def start(self) -> Failure | None:
        """Load the file. Returns a failure if it cannot be loaded."""
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

    def _start_worker(self) -> "subprocess.Popen[str]":
        scratch, worker = self._scratch.name, f"{__package__}.worker"
        folders = {"PATH": os.defpath, "HOME": scratch, "TMPDIR": scratch}
        return subprocess.Popen(
            [sys.executable, "-I", "-B", "-m", worker, self._exercise.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=scratch,
            env={**folders, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.communicate()  # closes its questions, and so it ends
        self._scratch.cleanup()
