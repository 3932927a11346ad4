"""All of a student's passed pieces together in one engine: `minivllm exercise demo --all-passed`.

Each module that a piece belongs to becomes one file: the student's file of the first exercise, with
the functions that the other exercises asked for taken from their files.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.holes import definitions_in, first_line
from minivllm.lessons.checker.workspace import Workspace
from minivllm.lessons.teacher.progress import ExerciseProgress

BESIDE_THE_ENGINE = ("minivllm.events.", "minivllm.kernels.")
"""Readers of events, and kernels that a CPU interprets for seconds a step."""


class Collection(NamedTuple):
    pieces: list[tuple[Exercise, Path]]
    left_out: dict[str, str]
    """Exercise -> why, as the end of a sentence without a full stop."""


def collect(workspace: Workspace, done: Mapping[str, ExerciseProgress]) -> Collection:
    found = Collection([], {})
    for exercise in workspace.started():
        entry, file = done.get(exercise.name), workspace.file(exercise)
        if entry is None or not entry.passed or exercise.finds_bug:
            continue
        beside = exercise.is_open or exercise.module.startswith(BESIDE_THE_ENGINE)
        if beside or not exercise.runs_in_engine:
            found.left_out[exercise.name] = "it runs alone"
        elif digest_of(exercise, file) == entry.passed_file:
            found.pieces.append((exercise, file))
        else:
            again = f"`{workspace.command('check', exercise)}` checks it again"
            found.left_out[exercise.name] = f"it has changed since it passed: {again}"
    return found


def digest_of(exercise: Exercise, file: Path) -> str:
    """Identify a file together with the engine's source that it was checked against."""
    ours = "" if exercise.finds_bug else exercise.source
    return hashlib.sha256(ours.encode() + b"\0" + file.read_bytes()).hexdigest()


def write_modules(pieces: Sequence[tuple[Exercise, Path]], folder: Path) -> None:
    """Write a file for each module, named as `minivllm.core.block_pool.py`."""
    for exercise, file in pieces:
        whole, text = folder / f"{exercise.module}.py", file.read_text(encoding="utf-8")
        if whole.exists():
            text = _with_holes(whole.read_text(encoding="utf-8"), text, exercise.holes)
        whole.write_text(text, encoding="utf-8")


def _with_holes(base: str, text: str, holes: Sequence[str]) -> str:
    """`base` with the functions `holes` of `text`, and with what else only `text` defines."""
    ours, theirs, lines = _places(base), _places(text), base.splitlines()
    new = text.splitlines()
    for name in sorted(holes, key=lambda name: ours[name].start, reverse=True):
        lines[ours[name]] = new[theirs[name]]
    for name in theirs:
        if "." not in name and name not in ours:
            lines += new[theirs[name]]
    return "\n".join(lines) + "\n"


def _places(text: str) -> dict[str, slice]:
    found = definitions_in(text)
    return {name: slice(first_line(node) - 1, node.end_lineno) for name, node in found}
