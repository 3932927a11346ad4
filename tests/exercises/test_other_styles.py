"""A right solution passes in any style: recursion for a loop, slices for an iterator, a formula.

`other_styles/NAME.py` solves the exercise NAME in a structure of its own. It defines the holes only,
with the same names (plus `_` where it also imports the engine's own one). Their bodies replace those
of the engine's file; signatures, decorators and all other code stay.
"""

import ast
import resource
from pathlib import Path

import pytest

from minivllm.lessons.checker.catalogue import Exercise, exercises
from minivllm.lessons.checker.check import check
from minivllm.lessons.checker.child.sandbox import Submission
from minivllm.lessons.checker.holes import find_holes
from minivllm.lessons.checker.report import report

FOLDER = Path(__file__).parent / "other_styles"
SECONDS = 10
"""The goal for a check, here in processor time, which a busy machine changes little."""
FAST = ("flattened-batch", "engine-loop", "few-bits", "token-mask")
TO_WRITE = [one for one in exercises() if not one.is_hunt]


def bodies_of(file: Path) -> dict[str, str]:
    """The source of each function's body, by the name of its hole."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    found = {}
    for node in ast.parse(text).body:
        owner = f"{node.name.rstrip('_')}." if isinstance(node, ast.ClassDef) else ""
        for function in node.body if owner else [node]:
            if isinstance(function, ast.FunctionDef):
                body = lines[function.body[0].lineno - 1 : function.end_lineno]
                found[owner + function.name.rstrip("_")] = "\n".join(body)
    return found


def in_other_style(exercise: Exercise) -> str:
    """The engine's file with the holes filled from `other_styles/`."""
    lines = exercise.source.splitlines()
    bodies = bodies_of(FOLDER / f"{exercise.package}.py")
    assert set(bodies) == set(exercise.holes)
    for hole in reversed(find_holes(exercise)):
        function = next(
            line for line in lines[hole.first - 1 : hole.begin] if line.lstrip().startswith("def ")
        )
        name = function.split("def ")[1].partition("(")[0]
        body = bodies[f"{hole.owner}.{name}" if hole.owner else name]
        lines[hole.begin - 1 : hole.end] = [body]
    return "\n".join(lines) + "\n"


def test_every_exercise_is_solved_in_another_style():
    assert {file.stem for file in FOLDER.glob("*.py")} == {one.package for one in TO_WRITE}


@pytest.mark.parametrize(
    "exercise",
    [
        pytest.param(one, id=one.name, marks=[] if one.name in FAST else [pytest.mark.slow])
        for one in TO_WRITE
    ],
)
def test_a_right_solution_in_another_style_passes_with_all_points_and_in_time(exercise, tmp_path):
    if exercise.obstacle:
        pytest.skip(exercise.obstacle)
    file = tmp_path / exercise.student_file
    file.write_text(in_other_style(exercise), encoding="utf-8")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = check(exercise, Submission(file), patience=0.3)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert result.passed and result.score == result.max_score, "\n".join(report(result))
    assert 0 < after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < SECONDS
