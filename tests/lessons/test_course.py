"""The table of the course is complete, true, and what the documentation shows."""

import subprocess
import sys
from pathlib import Path

import pytest

from minivllm.lessons.course import COURSE, VIEWS, Concept, page
from minivllm.lessons.exercises.catalogue import exercises, find_exercise
from minivllm.lessons.library import find_lesson, lessons
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


def test_the_page_of_the_documentation_is_the_course_of_today():
    assert (ROOT / "docs/lessons.md").read_text(encoding="utf-8") == page(), (
        "made by: python -m minivllm.lessons.course > docs/lessons.md"
    )
    command = [sys.executable, "-m", "minivllm.lessons.course"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == page()
