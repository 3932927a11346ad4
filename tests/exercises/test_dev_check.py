"""Every exercise is sound, and dev-check finds unsound ones."""

import shutil
import subprocess
import sys

import pytest

from minivllm.lessons.checker import dev_check as module
from minivllm.lessons.checker.cases.behaviour import behaviours_of
from minivllm.lessons.checker.catalogue import Exercise, exercises, find_exercise
from minivllm.lessons.checker.child.sandbox import Session, Submission
from minivllm.lessons.checker.dev_check import dev_check
from minivllm.lessons.checker.search import find_counterexample


@pytest.mark.slow
@pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)
def test_the_engine_passes_the_stub_fails_and_every_wrong_solution_gets_its_own_hint(exercise):
    assert list(dev_check(exercise)) == []


WITH_TORCH = ("paged-attention", "paged-attention-triton", "split-kv", "top-p", "triton-warmup")
"""A process that imports torch costs seconds."""


@pytest.mark.parametrize(
    "exercise",
    [
        pytest.param(one, id=one.name, marks=[pytest.mark.slow] * (one.name in WITH_TORCH))
        for one in exercises()
        if not one.is_hunt
    ],
)
def test_a_wrong_solution_of_each_exercise_fails(exercise):
    assert list(module._files(exercise)) == []
    with Session(exercise, Submission(exercise.wrong_files[0], "overlay")) as session:
        assert session.start() is None
        # Stop at the first failure: a process with torch is the whole cost.
        found = (
            find_counterexample(behaviour, session, seed=0, shrink_seconds=0)
            for behaviour in behaviours_of(exercise.behaviours_module())
        )
        assert any(found)


@pytest.mark.slow
def test_no_import_of_an_exercises_module_imports_that_module():
    """Wrong solutions run in forks of a process that has imported these modules already."""
    lines = """
import os, sys, torch
from importlib import import_module
from minivllm.lessons.checker.catalogue import exercises
from minivllm.lessons.checker.child.plug import imports_of
for exercise in exercises():
    if exercise.is_hunt:
        continue
    if not exercise.obstacle and os.fork() == 0:
        for name in imports_of(exercise):
            import_module(name)
        os._exit(exercise.module in sys.modules)
    elif not exercise.obstacle:
        assert os.wait()[1] == 0, exercise.name
"""
    subprocess.run([sys.executable, "-c", lines], check=True, timeout=120)


def test_dev_check_reports_a_right_solution_among_the_wrong_ones_and_a_useless_behaviour(
    tmp_path, monkeypatch
):
    right = tmp_path / "right.py"
    right.write_text('"""Everything is as it should be."""\n\nHINT = "There is nothing wrong."\n')
    monkeypatch.setattr(Exercise, "wrong_files", [right])
    exercise = find_exercise("block-pool")._replace(hints=("one",))
    told = " ".join(dev_check(exercise))
    assert "right.py passes." in told
    assert "must be 3 hints" in told and "at least 5 wrong solutions" in told
    assert told.count("no wrong solution fails") == 6


@pytest.mark.slow
def test_dev_check_reports_two_wrong_solutions_that_it_cannot_distinguish(tmp_path, monkeypatch):
    exercise = find_exercise("block-pool")
    twins = [tmp_path / "a.py", tmp_path / "b.py"]
    for twin in twins:
        shutil.copyfile(exercise.folder / "wrong/never_evicts.py", twin)
    monkeypatch.setattr(Exercise, "wrong_files", twins)
    told = list(dev_check(exercise))
    assert "block-pool: a.py cannot be distinguished from b.py." in told
