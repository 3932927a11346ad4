"""The table of the course is complete, and the code that lessons name exists."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from minivllm.lessons.checker.catalogue import exercises
from minivllm.lessons.course.course import COURSE, VIEWS
from minivllm.lessons.course.library import find_lesson, lessons
from minivllm.tui.panels import make_panel

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "lessons/course").glob("l[0-9][0-9]_*.py"))
OURS = re.compile(r"`((?:minivllm|kernels|tui|lessons)/[\w/]+(?:\.py|/))`")
METHOD = re.compile(r"`([A-Z]\w+)\.(_?[a-z]\w+)`")
HOMES = {
    "Scheduler": "minivllm.core.scheduler",
    "AdmissionPolicy": "minivllm.core.admission",
    "BlockPool": "minivllm.core.block_pool",
    "KVCacheManager": "minivllm.core.kv_cache_manager",
}


def test_every_lesson_and_exercise_is_in_the_table_after_its_prerequisites():
    assert [one.lesson for one in COURSE] == [one.name for one in lessons()]
    assert len(FILES) == len(lessons())
    for earlier, one in enumerate(lessons()):
        assert set(one.needs) <= {before.name for before in lessons()[:earlier]}
    assert sorted(name for one in COURSE for name in one.exercises) == sorted(
        one.name for one in exercises()
    )


@pytest.mark.parametrize("concept", COURSE, ids=lambda concept: concept.lesson)
def test_every_concept_has_a_lesson_and_a_view(concept):
    assert find_lesson(concept.lesson)
    assert concept.panels
    for panel in concept.panels:
        screen = ROOT / "tui" / "screens" / f"{VIEWS[panel].screen}.py"
        name = type(make_panel(panel)).__name__
        assert re.search(rf"import .*\b{name}\b", screen.read_text("utf-8")), panel


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_and_method_that_a_lesson_names_exists(path):
    text = path.read_text(encoding="utf-8")
    for place in OURS.findall(text):
        assert (ROOT / place).exists(), place
    for owner, method in METHOD.findall(text):
        if owner in HOMES:
            assert hasattr(getattr(import_module(HOMES[owner]), owner), method), f"{owner}.{method}"
