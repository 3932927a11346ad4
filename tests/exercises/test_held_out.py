"""A hundred wrong solutions that the authors of the cases did not know: every one is caught.

`wrong/` beside each exercise has the faults that its cases were written for. Those in `held_out/`
were written from the README and the solution alone, before their author had read the cases. So they
say how a check does on a student whom nobody expected.

    python -m tests.exercises.test_held_out [EXERCISE ...]     which are caught, and by which name
"""

import sys
import tempfile
import tomllib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pytest

from minivllm.lessons.checker.cases.behaviour import Behaviour
from minivllm.lessons.checker.catalogue import Exercise, find_exercise
from minivllm.lessons.checker.check import run_behaviours
from minivllm.lessons.checker.child.sandbox import Session, Submission
from minivllm.lessons.checker.diagnosis import WrongSolutions
from minivllm.lessons.checker.search import Counterexample, cases_of, compare_lines

FOLDER = Path(__file__).parent / "held_out"
FAST = (
    "few-bits",
    "flattened-batch",
    "engine-loop",
    "roofline",
    "stop-strings",
    "block-pool",
    "preemption",
)


class HeldOut(NamedTuple):
    """A wrong solution, as one change in the engine's own file."""

    exercise: str
    believes: str
    """The misconception, as the student would say it."""
    old: str
    new: str

    def source(self) -> str:
        source = find_exercise(self.exercise).source
        assert source.count(self.old) == 1, f"{self.exercise}: {self.old!r} must be there once"
        return source.replace(self.old, self.new)


def held_out() -> list[HeldOut]:
    return [
        HeldOut(**entry)
        for file in sorted(FOLDER.glob("*.toml"))
        for entry in tomllib.loads(file.read_text(encoding="utf-8"))["wrong"]
    ]


def by_exercise() -> dict[str, list[HeldOut]]:
    entries = sorted(held_out(), key=lambda entry: entry.exercise)
    return {name: list(group) for name, group in groupby(entries, lambda entry: entry.exercise)}


def uncaught(exercise: Exercise, entries: list[HeldOut], folder: Path) -> list[str]:
    """What the students believe whose solutions pass. All solutions share one process."""
    passed = []
    with Session(exercise, Submission(folder, "overlays")) as session:
        assert session.start() is None
        for number, entry in enumerate(entries):
            file = folder / f"held_out_{number}.py"
            file.write_text(entry.source(), encoding="utf-8")
            if not any(_fails(session, file, one) for one in exercise.behaviours()):
                passed.append(entry.believes)
    return passed


def _fails(session: Session, file: Path, behaviour: Behaviour) -> Counterexample | None:
    for case, expected in cases_of(behaviour, 0):
        reply = session.ask({"file": str(file), "behaviour": behaviour.key, "case": case})
        if found := compare_lines(expected, behaviour, case, *reply):
            return found
    return None


EXERCISES = [
    pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in by_exercise()
]


def test_there_are_a_hundred_and_each_says_what_its_student_believes():
    entries = held_out()
    assert len(entries) >= 100 and all(entry.believes.endswith(".") for entry in entries)
    assert len({(entry.exercise, entry.source()) for entry in entries}) == len(entries)
    assert all(len(group) >= 4 for group in by_exercise().values())


@pytest.mark.parametrize("name", EXERCISES)
def test_no_wrong_solution_passes_that_the_authors_had_not_seen(name, tmp_path):
    exercise = find_exercise(name)
    if exercise.obstacle:
        pytest.skip(exercise.obstacle)
    assert uncaught(exercise, by_exercise()[name], tmp_path) == []


def verdicts(name: str) -> Iterator[str]:
    """One line for each held-out solution: passed, or caught, and the misconception's name."""
    exercise = find_exercise(name)
    with tempfile.TemporaryDirectory() as folder, WrongSolutions(exercise) as wrong:
        for entry in by_exercise()[name]:
            file = Path(folder) / exercise.student_file
            file.write_text(entry.source(), encoding="utf-8")
            result = run_behaviours(exercise, Submission(file), patience=0.3, wrong=wrong)
            known = result.misconception.name if result.misconception else "-"
            yield f"{'PASSED' if result.passed else 'caught'}  {name}: {entry.believes}  {known}"


if __name__ == "__main__":
    for name in sys.argv[1:] or by_exercise():
        for line in verdicts(name):
            print(line, flush=True)
