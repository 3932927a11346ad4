"""The pieces of an engine that a student has written: the files of passed exercises."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from minivllm.lessons.checker.capstone.merge import OwnFile
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.workspace import Workspace
from minivllm.lessons.teacher.progress import ExerciseProgress

BESIDE_THE_ENGINE = "minivllm.events."
"""Modules that read an engine's events, but do not change what it does."""
ON_A_GPU = "minivllm.kernels."


class OwnPiece(NamedTuple):
    """A passed exercise, and the student's file."""

    exercise: Exercise
    file: Path

    @property
    def name(self) -> str:
        return self.exercise.name

    @property
    def own_file(self) -> OwnFile:
        return OwnFile(self.exercise.name, str(self.file), self.exercise.holes)


class LeftOut(NamedTuple):
    """A passed exercise whose file does not run in the common engine, and the reason."""

    name: str
    why: str
    """The end of a sentence, without a full stop."""


class Collection(NamedTuple):
    pieces: list[OwnPiece]
    left_out: list[LeftOut]


def collect(
    workspace: Workspace,
    done: Mapping[str, ExerciseProgress],
    still_passes: Callable[[Exercise, Path], bool],
    *,
    has_gpu: Callable[[], bool],
) -> Collection:
    """Find the pieces of all passed exercises, in the order of the course.

    done: what is recorded; still_passes: checks a file that has changed since it passed
    """
    found = Collection([], [])
    for exercise in workspace.started():
        entry = done.get(exercise.name)
        if entry is None or not entry.passed or exercise.is_hunt:
            continue
        file = workspace.file(exercise)
        if why := _cannot_run(exercise, has_gpu) or _cannot_use(file):
            found.left_out.append(LeftOut(exercise.name, why))
        elif digest_of(exercise, file) == entry.passed_file or still_passes(exercise, file):
            found.pieces.append(OwnPiece(exercise, file))
        else:
            why = "its file has changed and no longer passes"
            found.left_out.append(LeftOut(exercise.name, why))
    if any(one.exercise.module.startswith("minivllm.runtime.attention") for one in found.pieces):
        for one in [one for one in found.pieces if one.exercise.module.startswith(ON_A_GPU)]:
            found.pieces.remove(one)
            why = "an engine has one attention backend, and your attention in torch is used"
            found.left_out.append(LeftOut(one.name, why))
    return found


def digest_of(exercise: Exercise, file: Path) -> str:
    """Identify a file together with the engine's source that it was checked against."""
    ours = b"" if exercise.is_hunt else exercise.source_file.read_bytes()
    digest = hashlib.sha256(ours)
    digest.update(b"\0")
    digest.update(file.read_bytes())
    return digest.hexdigest()


def _cannot_run(exercise: Exercise, has_gpu: Callable[[], bool]) -> str:
    """Why no engine of this machine runs the exercise; empty if one does."""
    if not exercise.runs_in_engine or exercise.module.startswith(BESIDE_THE_ENGINE):
        return "no engine runs such code"
    if exercise.is_open:
        return (
            "it changes the schedule on purpose, so the trial could not tell it from a fault:"
            f" `minivllm exercise demo {exercise.name}` runs it alone"
        )
    if exercise.obstacle:
        return exercise.obstacle.rstrip(".")
    if exercise.module.startswith(ON_A_GPU) and not has_gpu():
        return (
            "without a GPU its kernel is interpreted, and a step takes seconds:"
            f" `minivllm exercise demo {exercise.name}` runs it alone"
        )
    return ""


def _cannot_use(file: Path) -> str:
    if 'NotImplementedError("TODO ' in file.read_text(encoding="utf-8", errors="replace"):
        return "its file has a TODO"
    return ""
