"""Solutions that the authors of the cases had not seen: right ones pass, wrong ones are caught.

`held_out/*.toml`: a hundred wrong solutions, each one change in the engine's own file. They were
written from the README and the solution alone, before their author had read the cases.
`other_styles/*.py`: a right solution in a structure of its own, but for `WITHOUT_STYLE`. A file
defines only holes, with the same names (plus `_` where it also imports the engine's own one). Their
bodies replace those of the engine's file; signatures, decorators and all other code stay.
"""

import ast
import tomllib
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pytest
from support.model.needs import NO_TRITON

from minivllm.lessons.checker.catalogue import Exercise, edited, exercises, find_exercise
from minivllm.lessons.checker.check import check
from minivllm.lessons.checker.child.session import Worker
from minivllm.lessons.checker.holes import find_holes
from minivllm.lessons.checker.report import report
from minivllm.lessons.checker.search import cases_of, compare

HERE = Path(__file__).parent
WITHOUT_STYLE = (
    "few-bits", "flattened-batch", "metrics", "paged-attention", "paged-attention-triton",
    "roofline", "slot-mapping", "split-kv", "token-mask", "triton-warmup", "waste",
)  # fmt: skip
"""Their cases see only the numbers that a function returns: whole ones, or with a tolerance."""
STYLED = [known for known in exercises() if not known.finds_bug and known.name not in WITHOUT_STYLE]


class HeldOut(NamedTuple):
    exercise: str
    believes: str
    """The misconception, as the student would say it."""
    old: str
    new: str

    def source(self) -> str:
        return changed(find_exercise(self.exercise), self.old, self.new)


def changed(exercise: Exercise, old: str, new: str) -> str:
    return edited(exercise.source, old, new, exercise.name)


def held_out() -> dict[str, list[HeldOut]]:
    entries = [
        HeldOut(**entry)
        for file in sorted((HERE / "held_out").glob("*.toml"))
        for entry in tomllib.loads(file.read_text(encoding="utf-8"))["wrong"]
    ]
    entries.sort(key=lambda entry: entry.exercise)
    return {name: list(group) for name, group in groupby(entries, lambda entry: entry.exercise)}


@pytest.mark.parametrize("name", held_out())
def test_no_wrong_solution_passes_that_the_authors_had_not_seen(name, tmp_path):
    exercise = find_exercise(name)
    if exercise.obstacle:
        pytest.skip(NO_TRITON)
    passed = []
    with Worker(exercise) as worker:
        for number, entry in enumerate(held_out()[name]):
            file = tmp_path / f"held_out_{number}.py"
            file.write_text(entry.source(), encoding="utf-8")
            ask = partial(worker.ask, str(file))
            if not any(
                compare(behaviour, case, expected, ask)
                for behaviour in exercise.behaviours()
                for case, expected in cases_of(behaviour, 0)
            ):
                passed.append(entry.believes)
    assert passed == []


def bodies() -> dict[str, str]:
    """The source of each function's body, by the name of its hole."""
    found: dict[str, str] = {}
    for file in (HERE / "other_styles").glob("*.py"):
        text = file.read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            owner = f"{node.name.rstrip('_')}." if isinstance(node, ast.ClassDef) else ""
            for function in node.body if owner else [node]:
                if isinstance(function, ast.FunctionDef):
                    lines = text.splitlines()[function.body[0].lineno - 1 : function.end_lineno]
                    name = owner + function.name.rstrip("_")
                    assert name not in found
                    found[name] = "\n".join(lines)
    return found


def in_other_style(exercise: Exercise) -> str:
    """The engine's file with the holes filled from `other_styles/`."""
    lines = exercise.source.splitlines()
    for hole in reversed(find_holes(exercise)):
        lines[hole.begin - 1 : hole.end] = [bodies()[hole.name]]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("exercise", STYLED, ids=lambda exercise: exercise.name)
def test_a_right_solution_in_another_style_passes_with_all_points(exercise, tmp_path):
    file = tmp_path / exercise.student_file
    file.write_text(in_other_style(exercise), encoding="utf-8")
    result = check(exercise, file, patience=0.3)
    assert result.passed and result.score == result.max_score, "\n".join(report(result))


CEILING = "-(-num_tokens // self.block_size)"
CACHED = "position < sequence.num_cached_tokens"


@pytest.mark.parametrize(
    ("name", "ours", "theirs"),
    [
        ("block-table", CEILING, f"max({CEILING}, 1)"),
        ("slot-mapping", CACHED, "position - start < sequence.num_cached_tokens"),
    ],
)
def test_a_fault_that_resembles_a_known_mistake_gets_no_diagnosis(name, ours, theirs, tmp_path):
    exercise = find_exercise(name)
    file = tmp_path / exercise.student_file
    file.write_text(changed(exercise, ours, theirs), encoding="utf-8")
    result = check(exercise, file, patience=0.1)
    assert not result.passed and result.misconception is None
    assert result.first_failure.behaviour.hint in "\n".join(report(result))
