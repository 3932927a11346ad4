"""The table of the course is complete and true; what the site makes of it, tests/docs/test_tutorial.py holds."""

from pathlib import Path

import pytest

from minivllm.lessons.checker.catalogue import exercises, find_exercise
from minivllm.lessons.course.course import COURSE, VIEWS, Concept
from minivllm.lessons.course.library import find_lesson, lessons
from minivllm.tui.panels import _CLASSES

ROOT = Path(__file__).resolve().parents[2]


def test_every_lesson_and_every_exercise_stands_in_the_table():
    assert [one.lesson for one in COURSE] == [one.name for one in lessons()]
    for exercise in exercises():
        home = next(one for one in COURSE if find_lesson(one.lesson).number == exercise.lesson)
        assert exercise.name in home.exercises, f"{exercise.name} is not with lesson {exercise.lesson}"


@pytest.mark.parametrize("concept", COURSE, ids=lambda concept: concept.lesson)
def test_every_concept_has_a_lesson_an_exercise_and_a_view(concept: Concept):
    assert find_lesson(concept.lesson)
    assert concept.exercises and all(find_exercise(name).name == name for name in concept.exercises)
    for panel in concept.panels:
        screen = (ROOT / "tui" / "screens" / f"{VIEWS[panel].screen}.py").read_text(encoding="utf-8")
        assert f"import {_CLASSES[panel]}\n" in screen, f"{panel} is not on the screen {VIEWS[panel].screen}"
    assert concept.panels
