"""Nothing in the course is used before it is taught, and all code that lessons name exists."""

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from minivllm.lessons.checker.catalogue import exercises
from minivllm.lessons.course.course import COURSE
from minivllm.lessons.course.library import find_lesson, lessons

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "lessons/course").glob("l[0-9][0-9]_*.py"))
SEE = re.compile(r"\blessons? \d|\bnext lesson\b")
"""A text that looks ahead says so."""
OURS = re.compile(r"`((?:minivllm|kernels|tui|lessons)/[\w/]+(?:\.py|/))`")
METHOD = re.compile(r"`([A-Z]\w+)\.(_?[a-z]\w+)`")
HOMES = {
    "Scheduler": "minivllm.core.scheduler",
    "AdmissionPolicy": "minivllm.core.admission",
    "BlockPool": "minivllm.core.block_pool",
    "KVCacheManager": "minivllm.core.kv_cache_manager",
}
LESSONS = {concept.lesson: concept for concept in COURSE}
TABLE = tomllib.loads((ROOT / "lessons/course/course.toml").read_text(encoding="utf-8"))
EXERCISES = {entry["name"]: entry for entry in TABLE["exercise"]}


def test_every_lesson_and_exercise_has_an_entry_in_the_order_of_the_course():
    assert list(LESSONS) == [lesson.name for lesson in lessons()]
    assert list(EXERCISES) == [exercise.name for exercise in exercises()]
    assert sorted(name for concept in COURSE for name in concept.exercises) == sorted(EXERCISES)


def test_no_lesson_and_no_exercise_needs_a_concept_before_it_is_taught():
    taught: set[str] = set()
    after: dict[int, set[str]] = {}
    for number, lesson in enumerate(lessons()):
        assert set(lesson.needs) <= {before.name for before in lessons()[:number]}
        assert set(LESSONS[lesson.name].needs) <= taught, lesson.name
        taught |= set(LESSONS[lesson.name].teaches)
        after[lesson.number] = set(taught)
    practised: set[str] = set()
    for exercise in exercises():
        entry = EXERCISES[exercise.name]
        assert set(entry["needs"]) <= after[exercise.lesson] | practised, exercise.name
        practised |= set(entry.get("teaches", ()))


def test_no_lesson_of_the_main_track_needs_the_kernel_track():
    kernels = {lesson.name for lesson in lessons() if lesson.track == "kernels"}
    terms = {term for name in kernels for term in LESSONS[name].teaches}
    for lesson in lessons():
        if lesson.track == "main":
            assert not (set(lesson.needs) & kernels or set(LESSONS[lesson.name].needs) & terms)


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_names_what_it_teaches_and_nothing_that_comes_later(name):
    lesson = find_lesson(name)
    stem = lesson.run.__module__.rpartition(".")[2]
    texts = list(texts_of(ROOT / f"lessons/course/{stem}.py"))
    for term in LESSONS[name].teaches:
        assert any(mentions(term, text) for text in texts), term
    later = [other for other in lessons() if other.number > lesson.number]
    for other in later if lesson.track == "main" else []:
        for term in LESSONS[other.name].teaches:
            early = [text for text in texts if mentions(term, text) and not SEE.search(text)]
            assert not early, f"{term!r}, which is taught in {other.name}: {early[0]}"


@pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)
def test_an_exercise_uses_no_term_of_a_later_lesson_that_it_does_not_explain(exercise):
    page = exercise.readme
    texts = [*re.split(r"\n\s*\n|\n(?= *(?:\d\.|-) )", page), *exercise.hints]
    defined = " ".join(re.findall(r"(?<!\*)\*(\w[^*\n]*)\*(?!\*)", page))
    for lesson in lessons():
        for term in LESSONS[lesson.name].teaches if lesson.number > exercise.lesson else ():
            early = [text for text in texts if mentions(term, text) and not SEE.search(text)]
            later = f"{term!r}, which is taught in {lesson.name}"
            assert mentions(term, defined) or not early, f"{later}: {early[0]}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_and_method_that_a_lesson_names_exists(path):
    text = path.read_text(encoding="utf-8")
    for place in OURS.findall(text):
        assert (ROOT / place).exists(), place
    for owner, method in METHOD.findall(text):
        if owner in HOMES:
            assert hasattr(getattr(import_module(HOMES[owner]), owner), method), f"{owner}.{method}"


def mentions(term: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(term)}s?(?!\w)", text, re.IGNORECASE) is not None


def texts_of(path: Path) -> Iterator[str]:
    """The texts of a lesson: strings of several words, without docstrings, guess by guess."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in skipped:
            skipped |= {id(part) for part in node.values}
            text = "".join(part.value for part in node.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = "" if id(node) in skipped else node.value
        else:
            continue
        for part in re.split(r"\n *(?=[-=] )", text):
            if " " in part:
                yield " ".join(part.split())
