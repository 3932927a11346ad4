"""Every lesson of the course, run once on the real engine from start to end, as `--auto` does."""

from dataclasses import dataclass, replace
from itertools import takewhile
from types import SimpleNamespace

import pytest
from support.model.needs import HAS_TRITON
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)

from minivllm.lessons.course.course import COURSE
from minivllm.lessons.course.library import lessons
from minivllm.lessons.teacher.lesson_engine import ModelShelf
from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.lessons.teacher.script import Answer, Lesson, Predict
from minivllm.lessons.teacher.words import page_picture, without_marks
from minivllm.text import clean
from minivllm.tui.draw.lines import text_of
from minivllm.tui.lesson import Page
from minivllm.tui.widgets.frame.lesson_text import LessonText

ROOM_OF_80_BY_24, ROOM_OF_A_DRAWING, ROOM_OF_120_BY_36 = (31, 20), (44, 20), (44, 30)


def at_page(page: Page) -> SimpleNamespace:
    """Replaces a lesson player that is at this page."""
    title = "12. A title of the usual length, in two rows"
    return SimpleNamespace(page=page, title=title, num_pages=0, at_newest=True, score=(0, 1))


@dataclass
class Run:
    lesson: Lesson
    pages: tuple[Page, ...]
    questions: list[Predict]
    truths: list[Answer]
    verdicts: list[Page]
    """Pages after the wrong answers that the lesson expects."""
    pictures: list[str]
    """The panel beside each page, as text."""


def play(lesson: Lesson, shelf: ModelShelf) -> Run:
    player = LessonPlayer(lesson, shelf)
    questions, verdicts, pictures = [], [], []
    while not player.over:
        question = player.question
        pictures.append("\n".join(page_picture(player.page)))
        player.pass_over()
        if question is not None:
            questions.append(question)
            truth = player.questions[-1].truth
            verdicts += [
                replace(player.page, text=question.verdict(given, truth).text)
                for given in question.why
                if not question.is_right(given, truth)
            ]
    truths = [question.truth for question in player.questions]
    run = Run(lesson, player.pages, questions, truths, verdicts, pictures)
    player.close()
    return run


@pytest.fixture(scope="module", params=lessons(), ids=lambda lesson: lesson.name)
def run(request, lesson_shelf) -> Run:
    return play(request.param, lesson_shelf)


def test_a_lesson_runs_to_its_end_with_true_claims_beside_the_panels_it_names(run):
    notice = run.lesson.track == "kernels" and not HAS_TRITON  # a first page that says so
    assert run.pages[-1].last and len(run.pages) == run.lesson.pages + notice
    assert sum(len(page.claims) for page in run.pages) >= 3  # a false claim raises
    assert all(page.focus is not None and page.stage is not None for page in run.pages)
    before = takewhile(lambda page: not page.asks, run.pages)
    assert not any("terminals" in page.text for page in before), "words come first"
    named = next(concept.panels for concept in COURSE if concept.lesson == run.lesson.name)
    assert set(named) <= {page.focus for page in run.pages}
    shown = "\n".join((*(page.text for page in run.pages), *run.pictures))
    assert "\N{REPLACEMENT CHARACTER}" not in shown


def test_every_four_pages_have_a_question_with_a_misconception(run):
    assert len(run.questions) >= 3
    for question, truth in zip(run.questions, run.truths, strict=True):
        assert any(not question.is_right(given, truth) for given in question.why), question.question
    quiet = 0
    for page in run.pages[:-1]:
        quiet = 0 if page.asks else quiet + 1
        # The first of four pages after a question is its verdict.
        assert quiet <= 4, f"page {page.number}"


def test_every_page_and_drawing_fits_beside_its_picture_in_a_terminal(run):
    for page in (*run.pages, *run.verdicts):
        room = ROOM_OF_A_DRAWING if page.figure else ROOM_OF_80_BY_24
        rows = LessonText(at_page(page)).lines(None, *room)
        # Without spaces, because a path longer than a row wraps.
        drawn = "".join("".join(text_of(row).split()) for row in rows)
        for words in (without_marks(clean(page.text)), *page.choices):
            assert "".join(words.split()) in drawn, f"page {page.number}: {drawn}"
        assert "Thereisadrawinghere" not in drawn, f"page {page.number}: {drawn}"
        # Drawings need the size that the site recommends.
        rows = LessonText(at_page(page)).lines(None, *ROOM_OF_120_BY_36)
        large = {text_of(row).rstrip() for row in rows}
        assert {row.rstrip() for row in page.figure} <= large, f"page {page.number}"
