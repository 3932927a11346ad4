"""`Exercise`: what info.toml and an exercise's folder say, and how one is found by its name.

Knows files and names, nothing of how an exercise is checked. The easy thing to get wrong is the
order: it is the order of info.toml, which is the order of the course, and `next` follows it.
"""

import tomllib
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from minivllm.errors import ExerciseError, TritonMissingError

FOLDER = Path(__file__).resolve().parents[1] / "exercises"
NUM_HINTS = 3


class Exercise(NamedTuple):
    """One entry of info.toml."""

    name: str
    title: str
    lesson: int
    module: str
    """The module of the engine that has the holes."""
    holes: tuple[str, ...]
    """The functions and methods of that module that the student writes."""
    minutes: int
    hints: tuple[str, ...]
    """A question, where to look, pseudo-code."""
    memory_mb: int = 512
    """More than this the student's process may not take (with torch it needs a few thousand)."""
    seconds: float = 2.0
    """Processor time for one case, which takes a hundredth of that; the clock gives it much more
    (`sandbox`).
    """

    @property
    def folder(self) -> Path:
        return FOLDER / self.package

    @property
    def package(self) -> str:
        return self.name.replace("-", "_")

    @property
    def readme(self) -> str:
        return (self.folder / "README.md").read_text(encoding="utf-8")

    @property
    def source_file(self) -> Path:
        """The engine's own file, which is the solution. Found without importing it."""
        return Path(find_spec(self.module).origin)

    @property
    def source(self) -> str:
        return self.source_file.read_text(encoding="utf-8")

    @property
    def symbol(self) -> str:
        """The holes, for people: `BlockPool.touch, release`."""
        owners = ["", *(hole.rpartition(".")[0] for hole in self.holes)]
        return ", ".join(
            hole.removeprefix(f"{owner}.") for owner, hole in zip(owners, self.holes, strict=False)
        )

    @property
    def student_file(self) -> str:
        """How the student's file is called: as the engine's."""
        return f"{self.module.rpartition('.')[2]}.py"

    @property
    def wrong_files(self) -> list[Path]:
        return sorted((self.folder / "wrong").glob("*.py"))

    @property
    def obstacle(self) -> str:
        """Why it cannot be done on this machine, in a sentence; empty if it can. Those on Triton's
        kernels need Triton.
        """
        if self.module.startswith("minivllm.kernels.") and find_spec("triton") is None:
            return str(TritonMissingError(f"The exercise {self.name}"))
        return ""

    def require_what_it_needs(self) -> None:
        """Raises `ExerciseError` if it cannot be done here."""
        if self.obstacle:
            raise ExerciseError(self.obstacle)

    def behaviours_module(self) -> ModuleType:
        return import_module(f"minivllm.lessons.exercises.{self.package}.behaviours")


@cache
def exercises() -> tuple[Exercise, ...]:
    """All of them, in the order of the course."""
    return tuple(
        _read(entry)
        for entry in tomllib.loads((FOLDER / "info.toml").read_text(encoding="utf-8"))["exercise"]
    )


def _read(entry: dict[str, Any]) -> Exercise:
    return Exercise(**{**entry, "holes": tuple(entry["holes"]), "hints": tuple(entry["hints"])})


def find_exercise(name: str) -> Exercise:
    """By its name. Raises `ExerciseError`."""
    for exercise in exercises():
        if name in (exercise.name, exercise.package):
            return exercise
    known = ", ".join(exercise.name for exercise in exercises())
    raise ExerciseError(f"There is no exercise {name!r}: choose one of {known}.")
