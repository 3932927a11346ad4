"""`minivllm exercise demo --all-passed`: all of your passed pieces together in one engine.

The pieces are put together and tried in child processes, because an engine that is imported once
cannot be replaced. The demo itself is one more process.
"""

import argparse
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec

from minivllm.cli.terminal import note
from minivllm.errors import ExerciseError
from minivllm.lessons.checker.capstone.assemble import assemble, settings_for
from minivllm.lessons.checker.capstone.pieces import (
    Collection,
    LeftOut,
    OwnPiece,
    collect,
    digest_of,
)
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.check import run_behaviours
from minivllm.lessons.checker.child.sandbox import Submission
from minivllm.lessons.checker.workspace import Workspace
from minivllm.lessons.teacher.progress import Progress
from minivllm.text import clean, plural


def demo_of_all(args: argparse.Namespace, dashboard: list[str]) -> int:
    """Run the demo with all pieces. dashboard: its options, for the command line"""
    found = _collect(args)
    if found.pieces:
        note(
            f"Trying {plural(len(found.pieces), 'piece')} together:"
            f" {', '.join(piece.name for piece in found.pieces)} ..."
        )
        kept, left_out = assemble(found.pieces)
        _say(left_out)
        if not kept:
            raise ExerciseError("No piece is left that runs as the engine does.")
        settings = msgspec.json.encode(settings_for(kept)).decode()
        command = [sys.executable, "-m", "minivllm.cli.course.capstone_demo", settings]
        return subprocess.run([*command, watch_sentence(kept), *dashboard]).returncode
    raise ExerciseError(
        "You have passed no exercise yet that an engine can run: `minivllm exercise next` starts"
        " one, and `minivllm exercise check` notes that it passes."
    )


def watch_sentence(pieces: list[OwnPiece]) -> str:
    """What the dashboard shows under its top line."""
    names = [f"your {piece.name} ({piece.exercise.symbol})" for piece in pieces]
    if len(", ".join(names)) > 180:  # there are two lines
        names = [f"your {pieces[0].name}", *(piece.name for piece in pieces[1:])]
    return f"this engine runs on {', '.join(names)}."


def _collect(args: argparse.Namespace) -> Collection:
    progress, workspace = Progress(), Workspace(args.workspace)

    def still_passes(exercise: Exercise, file: Path) -> bool:
        note(f"Checking {exercise.name}, whose file is not the one that was checked ...")
        passed = run_behaviours(exercise, Submission(file), patience=0).passed
        progress.note_check(exercise.name, passed, digest_of(exercise, file))
        return passed

    found = collect(workspace, progress.read().exercises, still_passes, has_gpu=_has_gpu)
    _say(found.left_out)
    return found


def _say(left_out: list[LeftOut]) -> None:
    for why in dict.fromkeys(one.why for one in left_out):
        names = ", ".join(one.name for one in left_out if one.why == why)
        note(clean(f"Without {names}: {why}."))


def _has_gpu() -> bool:
    if find_spec("triton") is None:
        return False
    import torch

    return torch.cuda.is_available()
