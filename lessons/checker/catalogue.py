"""`Exercise`: an entry of info.toml, `Mistake`: one of its mistakes.toml, and how to find them."""

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from minivllm.errors import ExerciseError, TritonMissingError
from minivllm.lessons.checker.cases.behaviour import Behaviour, behaviours_of, visible_tests

FOLDER = Path(__file__).resolve().parents[1] / "exercises"
NUM_HINTS = 3
BUG_TASKS = ("the broken rule", "the step that breaks it first", "a step and a rule are given")
BUG_HINT = "Go through the recording step by step, and compare each with the rules."
INFO = tomllib.loads((FOLDER / "info.toml").read_text(encoding="utf-8"))
POLICY_MODULE = "minivllm.lessons.exercises.own_policy.policy"
"""No part of the engine, but an engine can run with it: it becomes the scheduler's queue."""


class Mistake(NamedTuple):
    """A known wrong solution, as a small change of the engine's own file, in mistakes.toml:

        [[mistake]]
        name = "everything_at_the_tail"
        believes = "First freed, first reused."        as the student would say it
        hint = "While it waits at the tail, which block is evicted instead?"
        old = "self.free_queue.prepend(block)"         exactly once in the file
        new = "self.free_queue.append(block)"

    In place of `old` and `new`, `adds` is code at the end of the file: `class BlockPool(BlockPool)`,
    say, with other methods. In "find the bug" a mistake is an answer: `step` and `rule`.
    """

    name: str
    believes: str
    hint: str = ""
    old: str = ""
    new: str = ""
    adds: str = ""
    step: int = 0
    rule: str = ""

    def source(self, source: str) -> str:
        """The engine's source with the mistake. Raises `ExerciseError` if it does not fit."""
        if self.adds:
            return f"{source}\n\n{self.adds}"
        return edited(source, self.old, self.new, self.name)


def edited(source: str, old: str, new: str, name: str) -> str:
    """Change `old`, which occurs once, to `new`. Raises `ExerciseError` if it does not fit."""
    if source.count(old) != 1:
        raise ExerciseError(f"{name}: {old!r} must be in the file once, not {source.count(old)}x.")
    return source.replace(old, new)


class Exercise(NamedTuple):
    name: str
    title: str
    lesson: int
    level: str
    """core: what all else builds on; standard; stretch: long, or with tools of other courses."""
    minutes: int
    hints: Sequence[str]
    module: str = ""
    """Empty for "find the bug", where the student answers a question about a recording."""
    holes: Sequence[str] = ()
    """The functions and methods of `module` that the student writes."""
    memory_mb: int = 512
    """Limit of the student's process; torch needs a few thousand."""
    seconds: float = 2.0
    """Of processor time, per case."""

    @property
    def package(self) -> str:
        return self.name.replace("-", "_")

    @property
    def folder(self) -> Path:
        return FOLDER / self.package

    @property
    def readme(self) -> str:
        if "story" in (parts := self.recipe):
            return INFO["find_the_bug"].format(name=self.name, title=self.title, **parts)
        return (self.folder / "README.md").read_text(encoding="utf-8")

    @property
    def source_file(self) -> Path:
        return Path(find_spec(self.module).origin)

    @property
    def source(self) -> str:
        return self.source_file.read_text(encoding="utf-8")

    @property
    def symbol(self) -> str:
        """The names of the holes, as one text: `BlockPool.touch, release`."""
        owners = ["", *(hole.rpartition(".")[0] + "." for hole in self.holes)]
        return ", ".join(map(str.removeprefix, self.holes, owners))

    @property
    def finds_bug(self) -> bool:
        return not self.module

    @property
    def recording(self) -> Path:
        return self.folder / "recording.jsonl"

    @property
    def recordings(self) -> list[Path]:
        """With that of an engine without the fault, if the two are to be compared."""
        both = self.recording, self.folder / "engine.jsonl"
        return [path for path in both if path.exists()]

    @property
    def student_file(self) -> str:
        return "answer.toml" if self.finds_bug else f"{self.module.rpartition('.')[2]}.py"

    @property
    def is_open(self) -> bool:
        """Whether a score takes the place of a right answer."""
        return self.module == POLICY_MODULE

    @property
    def runs_in_engine(self) -> bool:
        # A module of the lessons runs alone, and so does what the engine leaves to llguidance.
        runs_alone = self.module.startswith(("minivllm.lessons.", "minivllm.structured_output."))
        return not self.finds_bug and (self.is_open or not runs_alone)

    @property
    def recipe(self) -> dict[str, Any]:
        """All of mistakes.toml: for "find the bug" also the answer, the fault and the requests."""
        return tomllib.loads((self.folder / "mistakes.toml").read_text(encoding="utf-8"))

    @property
    def mistakes(self) -> list[Mistake]:
        return [Mistake(**entry) for entry in self.recipe["mistake"]]

    @property
    def obstacle(self) -> str:
        """Why this machine cannot run the exercise (Triton is missing); empty if it can."""
        if self.holes and "minivllm.kernels.mode" in self.source and find_spec("triton") is None:
            return str(TritonMissingError(f"The exercise {self.name}"))
        return ""

    def require_what_it_needs(self) -> None:
        if self.obstacle:
            raise ExerciseError(self.obstacle)

    def behaviours(self) -> list[Behaviour]:
        """What a submission must get right, with the visible tests as the last one."""
        if self.finds_bug:
            tasks = enumerate(BUG_TASKS, start=1)
            return [Behaviour(name, at, BUG_HINT, list, list, False, 1) for at, name in tasks]
        own = import_module(f"minivllm.lessons.exercises.{self.package}.behaviours")
        return [*behaviours_of(own), visible_tests(self.folder / "visible_test.py")]


@cache
def exercises() -> tuple[Exercise, ...]:
    """In the order of the course."""
    return tuple(Exercise(**entry) for entry in INFO["exercise"])


def find_exercise(name: str) -> Exercise:
    """Raises `ExerciseError` if there is no such exercise."""
    found = next((known for known in exercises() if name in (known.name, known.package)), None)
    if found is None:
        known = ", ".join(exercise.name for exercise in exercises())
        raise ExerciseError(f"There is no exercise {name!r}: choose one of {known}.")
    return found


def by_part() -> dict[str, list[Exercise]]:
    parts: dict[str, list[Exercise]] = {"Core": [], "Find the bug": [], "More": []}
    for exercise in sorted(exercises(), key=lambda exercise: exercise.lesson):
        more = "Find the bug" if exercise.finds_bug else "More"
        parts["Core" if exercise.level == "core" else more].append(exercise)
    return parts


def next_exercise(passed: set[str]) -> Exercise | None:
    """The first in the list that can run here and is not passed."""
    order = (exercise for part in by_part().values() for exercise in part)
    return next((known for known in order if not known.obstacle and known.name not in passed), None)
