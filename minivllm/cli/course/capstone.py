"""`minivllm exercise demo --all-passed`: all of your passed pieces together in one engine.

The pieces are put together and tried in child processes, because an engine that is imported once
cannot be replaced. The demo itself is one more process.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from minivllm.cli.terminal import note
from minivllm.errors import ExerciseError
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.check import run_behaviours
from minivllm.lessons.checker.child.sandbox import Submission
from minivllm.lessons.checker.pieces import LeftOut, collect, digest_of, try_together, write_modules
from minivllm.lessons.checker.workspace import Workspace
from minivllm.lessons.teacher.progress import Progress
from minivllm.text import clean, plural


def demo_of_all(args: argparse.Namespace, dashboard: list[str]) -> int:
    """Run the demo with all pieces. dashboard: its options, for the command line"""
    progress = Progress()

    def still_passes(exercise: Exercise, file: Path) -> bool:
        note(f"Checking {exercise.name}, whose file is not the one that was checked ...")
        passed = run_behaviours(exercise, Submission(file), patience=0).passed
        progress.note_check(exercise.name, passed, digest_of(exercise, file))
        return passed

    pieces, left_out = collect(Workspace(args.workspace), progress.read().exercises, still_passes)
    _say(left_out)
    if not pieces:
        start = "`minivllm exercise next` starts one, and `check` notes that it passes"
        raise ExerciseError(f"You have passed no exercise yet that an engine can run: {start}.")
    names = ", ".join(piece.exercise.name for piece in pieces)
    note(f"Trying {plural(len(pieces), 'piece')} together: {names} ...")
    pieces, left_out = try_together(pieces)
    _say(left_out)
    if not pieces:
        raise ExerciseError("No piece is left that runs as the engine does.")
    names = ",".join(piece.exercise.name for piece in pieces)
    with tempfile.TemporaryDirectory(prefix="minivllm-pieces-") as folder:
        write_modules(pieces, Path(folder))
        return demo_with(Path(folder), names, dashboard)


def demo_with(path: Path, names: str, dashboard: list[str]) -> int:
    """Run the demo in a fresh process, with a student's file or a folder of pieces."""
    command = [sys.executable, "-m", "minivllm.cli.course.exercise_demo", str(path), names]
    return subprocess.run([*command, *dashboard]).returncode


def _say(left_out: list[LeftOut]) -> None:
    for why in dict.fromkeys(one.why for one in left_out):
        names = ", ".join(one.name for one in left_out if one.why == why)
        note(clean(f"Without {names}: {why}."))
