"""Which misconception a failing solution shows: a known wrong solution that fails on exactly the
same cases in the same way.

Each of `wrong/*.py` has one, with a hint. First they are all run on the small cases that the
student's code failed on, which few survive. Those few must be right in all that the student's code
is right in, and of the other behaviours' cases a sample is compared: they must go wrong in the same
ones, at the same line. How the code is written does not matter.

Naming the wrong misconception is worse than naming none, so an unfinished solution is not
diagnosed, and where two wrong solutions fit, a report names neither (`check.Result.misconception`).
"""

import ast
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from minivllm.lessons.checker.cases.behaviour import Behaviour
from minivllm.lessons.checker.cases.draw import Case
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.child.sandbox import Failure, Session, Submission, Told
from minivllm.lessons.checker.search import Counterexample, cases_of, compare_with, difference

SAMPLE = 3
"""Of a behaviour that fails, one case in so many is compared. Wrong solutions that are not the
student's part on the first few.
"""
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
    """All wrong solutions of an exercise, in a process that starts when the first is asked; a
    context manager.
    """

    def __init__(self, exercise: Exercise) -> None:
        self._files = exercise.wrong_files
        self._session = Session(exercise, Submission(exercise.folder / "wrong", "overlays"))

    def diagnose(
        self,
        found: list[Counterexample | None],
        behaviours: list[Behaviour],
        submission: Session,
        seed: int,
    ) -> list[Misconception]:
        """The misconceptions of those that fail where the submission fails. `submission`: to ask it
        about more cases.
        """
        pairs = list(zip(behaviours, found, strict=True))
        failing = [(behaviour, one) for behaviour, one in pairs if one is not None]
        if not failing or any(
            one.failure is not None and one.failure.kind in _NOT_DIAGNOSED for _, one in failing
        ):
            return []
        alike = [
            file for file in self._files if all(self._does_the_same(file, *one) for one in failing)
        ]
        for behaviour, one in pairs:
            # Where no case was found the submission does as the engine: so must they, in all cases.
            num_cases = behaviour.examples if one is None else behaviour.examples // SAMPLE
            for case, expected in islice(cases_of(behaviour, seed), num_cases) if alike else ():
                theirs = (
                    None if one is None else compare_with(expected, behaviour, submission, case)
                )
                alike = [
                    file
                    for file in alike
                    if self._fails_alike(file, behaviour, case, expected, theirs)
                ]
        return [read_misconception(file) for file in alike]

    def _does_the_same(self, file: Path, behaviour: Behaviour, one: Counterexample) -> bool:
        told, failure = self._ask(file, behaviour, one.case)
        return behaviour.first_difference(one.told, told) is None and _words(failure) == _words(
            one.failure
        )

    def _fails_alike(
        self,
        file: Path,
        behaviour: Behaviour,
        case: Case,
        expected: list[str],
        theirs: Counterexample | None,
    ) -> bool:
        """Whether both part from the engine at the same line, with the same words, or neither
        does.
        """
        told, failure = self._ask(file, behaviour, case)
        ours = difference(expected, behaviour, case, told, failure)
        if ours is None or theirs is None:
            return ours is theirs
        begin = slice(ours.index, ours.index + 1)
        if (
            ours.index != theirs.index
            or behaviour.first_difference(ours.told[begin], theirs.told[begin]) is not None
        ):
            return False
        # What happens after the first difference follows from how the code is written.
        return bool(ours.told[begin]) or _words(ours.failure) == _words(theirs.failure)

    def _ask(self, file: Path, behaviour: Behaviour, case: Case) -> Told:
        return self._session.ask({"file": str(file), "behaviour": behaviour.key, "case": case})

    def __enter__(self) -> "WrongSolutions":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._session.close()


def _words(failure: Failure | None) -> str | None:
    """What went wrong, without the line of the file, or the seconds that a loop was given: these
    are others in every process.
    """
    if failure is not None and failure.kind in ("time", "memory"):
        return "endless"  # a loop that collects something meets either limit first
    if failure is None or failure.kind != "raised":
        return failure and failure.kind
    head, marker, rest = failure.text.partition(" in line ")
    return head + (rest.partition(":")[2] if marker else "")
