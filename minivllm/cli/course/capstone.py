"""`minivllm exercise demo --all-passed`: all of your passed pieces together in one engine.

The demo is a process of its own, because an engine that is imported once cannot be replaced.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from minivllm.cli.terminal import note
from minivllm.errors import ExerciseError
from minivllm.lessons.checker.pieces import collect, write_modules
from minivllm.lessons.checker.workspace import Workspace
from minivllm.lessons.teacher.progress import Progress
from minivllm.text import clean, plural


def demo_of_all(args: argparse.Namespace, dashboard: list[str]) -> int:
    """Run the demo with all pieces. dashboard: its options, for the command line"""
    pieces, left_out = collect(Workspace(args.workspace), Progress().read().exercises)
    for name, why in left_out.items():
        note(clean(f"Without {name}: {why}."))
    if not pieces:
        start = "`minivllm exercise next` starts one, and `check` notes that it passes"
        raise ExerciseError(f"You have passed no exercise yet that an engine can run: {start}.")
    names = [exercise.name for exercise, _ in pieces]
    note(f"Putting {plural(len(pieces), 'piece')} together: {', '.join(names)} ...")
    with tempfile.TemporaryDirectory(prefix="minivllm-pieces-") as folder:
        write_modules(pieces, Path(folder))
        return demo_with(Path(folder), ",".join(names), dashboard)


def demo_with(path: Path, names: str, dashboard: list[str]) -> int:
    """Run the demo in a fresh process, with a student's file or a folder of pieces."""
    command = [sys.executable, "-m", "minivllm.cli.course.exercise_demo", str(path), names]
    return subprocess.run([*command, *dashboard]).returncode
