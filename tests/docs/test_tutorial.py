"""The pages of topics match today's lessons and exercises, and show no solutions.

Fast tests compare all text and the pictures of two lessons; slow tests compare the other pictures,
which the same code draws.
"""

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)

from minivllm.lessons.checker.catalogue import exercises
from minivllm.lessons.checker.holes import find_holes, stub
from minivllm.lessons.course.library import find_lesson, lessons
from minivllm.lessons.site.__main__ import BY_HAND, other_pages, slow_pages
from minivllm.lessons.site.exercise_section import exercise_section
from minivllm.lessons.site.markdown import to_markdown
from minivllm.lessons.site.picks import PICKS, SUMMARIES
from minivllm.lessons.site.pictures import draw
from minivllm.lessons.site.teacher_pages import (
    exercise_misconceptions,
    lesson_misconceptions,
    lessons_by_week,
)
from minivllm.lessons.site.topic_page import TEXTS, page_name, topic_page
from minivllm.lessons.teacher.lesson_engine import ModelShelf

DOCS = Path(__file__).resolve().parents[2] / "docs"
RECORDINGS = DOCS / "assets/recordings/lessons"
MADE_BY = "made by: python -m minivllm.lessons.site docs"
DRAWN = ("naive-serving", "copy-on-write")
"""Lessons whose pictures are redrawn: together they show every kind of panel."""


def comparable(svg: str) -> list[tuple]:
    """Every element, without the number inside ids, which depends on the whole content."""
    elements = ElementTree.fromstring(re.sub(r"terminal-\d+", "terminal", svg)).iter()
    return [(one.tag, sorted(one.attrib.items()), one.text) for one in elements]


def stale_pictures(pictures: dict[str, str]) -> list[str]:
    folder = DOCS / "assets/lessons"
    drawn = {file: (folder / file).read_text(encoding="utf-8") for file in pictures}
    return [file for file, svg in pictures.items() if comparable(drawn[file]) != comparable(svg)]


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.name)
def test_what_the_engine_showed_after_a_question_is_folded_with_its_answer(lesson):
    text = (DOCS / "learn" / page_name(lesson)).read_text(encoding="utf-8")
    blocks = [one for one in text.split("\n\n") if one.strip()]
    assert not [
        claim
        for before, claim in pairwise(blocks)
        if claim.startswith("Checked on the engine") and before.startswith("    ")
    ]


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.name)
def test_the_page_of_a_topic_says_what_lesson_summary_and_exercises_say_today(lesson):
    drawn_again = lesson.name in DRAWN
    page = topic_page(lesson, draw=draw if drawn_again else (lambda page, title: ""))
    assert (DOCS / "learn" / page.name).read_text(encoding="utf-8") == page.text, MADE_BY
    assert 2 <= len(page.pictures) <= 5
    for file, recording in page.recordings.items():
        assert (RECORDINGS / file).read_text(encoding="utf-8") == recording, MADE_BY
    assert stale_pictures(page.pictures if drawn_again else {}) == [], MADE_BY


@pytest.mark.slow
@pytest.mark.parametrize(
    "lesson", [one for one in lessons() if one.name not in DRAWN], ids=lambda lesson: lesson.name
)
def test_the_pictures_of_every_other_lesson_are_those_of_today(lesson):
    assert stale_pictures(topic_page(lesson).pictures) == [], MADE_BY


@pytest.mark.parametrize("name", other_pages())
def test_the_lists_of_topics_exercises_and_weeks_are_those_of_today(name):
    assert (DOCS / name).read_text(encoding="utf-8") == other_pages()[name], MADE_BY


def test_the_course_has_every_lesson_in_one_week_and_no_week_without_a_lesson():
    weeks = [[one.name for one in taught] for _, taught in lessons_by_week()]
    assert sorted(name for week in weeks for name in week) == sorted(one.name for one in lessons())
    assert all(weeks)


def test_the_misconceptions_page_has_what_exercises_and_lessons_answer_today():
    page = (DOCS / "teach/misconceptions.md").read_text(encoding="utf-8")
    blocks = lesson_misconceptions(find_lesson("block-tables"), ModelShelf())
    assert "A block is not a token" in blocks and blocks in page, MADE_BY
    behind = [one.name for one in exercises() if exercise_misconceptions(one) not in page]
    assert behind == [], MADE_BY


@pytest.mark.slow
def test_the_whole_misconceptions_page_is_that_of_today():
    for name, text in slow_pages().items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, MADE_BY


def test_no_page_or_picture_remains_of_a_removed_lesson_or_exercise():
    pages = {path.name for path in (DOCS / "learn").iterdir()}
    assert pages == {page_name(one) for one in lessons()} | {"index.md", *BY_HAND}
    played = re.findall(
        r'data-recording="lessons/([^"]+)"',
        "".join(path.read_text(encoding="utf-8") for path in (DOCS / "learn").iterdir()),
    )
    assert {path.stem for path in RECORDINGS.iterdir()} == set(played)
    picked = {
        f"{one.number:02}-{one.name}-{page:02}.svg"
        for one in lessons()
        for page in PICKS[one.name].drawn
    }
    assert {path.name for path in (DOCS / "assets/lessons").iterdir()} == picked


def test_every_summary_is_on_the_page_of_one_topic():
    assert {path.stem for path in TEXTS.iterdir()} == set(SUMMARIES)
    assert set(SUMMARIES) == {picks.summary for picks in PICKS.values()}
    for name, lesson in SUMMARIES.items():
        assert PICKS[lesson].summary == name


@pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)
def test_every_exercise_has_one_section_with_an_address_of_its_own(exercise):
    found = [
        path.stem
        for path in (DOCS / "learn").iterdir()
        if f"{{ #exercise-{exercise.name} }}" in path.read_text(encoding="utf-8")
    ]
    assert found == [find_lesson(str(exercise.lesson)).name]


@pytest.mark.parametrize(
    "exercise", [one for one in exercises() if not one.is_hunt], ids=lambda exercise: exercise.name
)
def test_no_section_of_an_exercise_shows_its_solution_or_the_last_hint(exercise):
    text = exercise_section(exercise)
    lines = exercise.source.splitlines()
    bodies = ("\n".join(lines[hole.begin - 1 : hole.end]) for hole in find_holes(exercise))
    # A single line can be common (`else:`); a pair of lines is not.
    written = {pair for body in bodies for pair in _pairs_of_lines(body)}
    handed_out = set(_pairs_of_lines(stub(exercise)))
    inside = [pair for pair in _pairs_of_lines(text) if pair in written - handed_out]
    assert inside == []
    assert "](../../" not in text and to_markdown(exercise.hints[-1]) not in text
    assert to_markdown(exercise.hints[0]) in text and to_markdown(exercise.hints[1]) in text
    assert len(re.findall(rf"# TODO {exercise.name}$", text, re.M)) == len(exercise.holes)
    assert all(f"def {hole.rpartition('.')[2]}(" in text for hole in exercise.holes)


def _pairs_of_lines(text: str) -> list[tuple[str, str]]:
    return list(pairwise(line.strip() for line in text.splitlines() if line.strip()))


def test_the_pictures_of_all_lessons_are_small_and_load_nothing() -> None:
    pictures = [path.read_text(encoding="utf-8") for path in (DOCS / "assets/lessons").iterdir()]
    assert sum(map(len, pictures)) < 4_000_000
    for svg in pictures:
        addresses = set(re.findall(r"\w+://[^\"'\s]*", svg))
        assert addresses <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
