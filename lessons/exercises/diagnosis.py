"""Which misconception a failing solution shows: a known wrong solution that does exactly the same on its own failing cases.

Each of `wrong/*.py` has one, with a hint. They are run on the cases that the student's code failed on; one that tells the same
lines, and ends in the same way, has made the same mistake, however differently it is written.

The easy thing to get wrong is to match too much: code that is merely unfinished resembles nothing, and a crash says only where
it crashed. So an unwritten solution is not diagnosed, and every failing case must match.
"""

import ast
from pathlib import Path
from typing import NamedTuple

from minivllm.lessons.exercises.behaviour import Behaviour
from minivllm.lessons.exercises.catalogue import Exercise
from minivllm.lessons.exercises.sandbox import Session, Submission
from minivllm.lessons.exercises.search import Counterexample

_NOT_DIAGNOSED = ("todo", "time", "died", "memory", "output", "exit", "patched")


class Misconception(NamedTuple):
    """What a file of `wrong/` says of itself."""

    name: str
    sentence: str
    """The file's docstring: what its author believes."""
    hint: str
    """Its HINT: what to look at instead."""


def read_misconception(file: Path) -> Misconception:
    """From the source, never by running it."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    hint = next(
        node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "HINT"
    )
    return Misconception(file.stem, " ".join((ast.get_docstring(tree) or "").split()), hint)


class WrongSolutions:
    """All wrong solutions of an exercise, in a process that starts when the first is asked; a context manager."""

    def __init__(self, exercise: Exercise) -> None:
        self._files = exercise.wrong_files
        self._session = Session(exercise, Submission(exercise.folder / "wrong", "overlays"))

    def diagnose(self, found: list[Counterexample | None], behaviours: list[Behaviour]) -> Misconception | None:
        """The misconception of the first that does the same on all of the failing cases."""
        failing = [(behaviour, one) for behaviour, one in zip(behaviours, found, strict=True) if one is not None]
        if not failing or any(one.failure is not None and one.failure.kind in _NOT_DIAGNOSED for _, one in failing):
            return None
        for file in self._files:
            if all(self._does_the_same(file, behaviour, one) for behaviour, one in failing):
                return read_misconception(file)
        return None

    def _does_the_same(self, file: Path, behaviour: Behaviour, one: Counterexample) -> bool:
        told, failure = self._session.ask({"file": str(file), "behaviour": behaviour.key, "case": one.case})
        if behaviour.first_difference(one.told, told) is not None:
            return False
        # Errors are told with their line, which is another in every file.
        return (failure and _without_line(failure.text)) == (one.failure and _without_line(one.failure.text))

    def __enter__(self) -> "WrongSolutions":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._session.close()


def _without_line(text: str) -> str:
    head, marker, rest = text.partition(" in line ")
    return head + (rest.partition(":")[2] if marker else "")
