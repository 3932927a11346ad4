"""Every lesson of the course, run on the real engine from start to end, as `--auto` does."""

from dataclasses import dataclass

import pytest
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)

from minivllm.lessons.course.course import COURSE
from minivllm.lessons.course.library import find_lesson, lessons
from minivllm.lessons.shown.measured import MeasuredKernel, MeasuredKernels, MeasuredLadder
from minivllm.lessons.teacher.lesson_engine import ModelShelf
from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.lessons.teacher.script import MAX_WORDS, Answer, Lesson, Predict
from minivllm.lessons.teacher.transcript import transcript
from minivllm.lessons.teacher.words import page_picture, without_marks
from minivllm.text import clean
from minivllm.tui.draw.lines import text_of
from minivllm.tui.lesson import Page
from minivllm.tui.widgets.frame.lesson_text import LessonText

ROOM_OF_80_BY_24, ROOM_OF_120_BY_36 = (31, 20), (44, 30)


@dataclass
class OnePage:
    """Replaces a lesson player that is at this page."""

    page: Page
    title: str = "12. A title of the usual length, in two rows"
    num_pages: int = 0
    at_newest: bool = True
    score: tuple[int, int] = (0, 1)


@dataclass
class Run:
    lesson: Lesson
    pages: tuple[Page, ...]
    questions: list[Predict]
    truths: list[Answer]
    wrong_verdicts: list[str]
    """Verdicts on the wrong answers that the lesson expects."""
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
            wrong = [
                given for given in question.why if not question.is_right(given, player.truths[-1])
            ]
            verdicts += [question.verdict(given, player.truths[-1]).text for given in wrong]
    run = Run(lesson, player.pages, questions, player.truths, verdicts, pictures)
    player.close()
    return run


@pytest.fixture(scope="module", params=lessons(), ids=lambda lesson: lesson.name)
def run(request, lesson_shelf) -> Run:
    return play(request.param, lesson_shelf)


def test_a_lesson_has_as_many_pages_as_its_title_bar_says(run):
    assert len(run.pages) == run.lesson.pages
    text = LessonText(OnePage(run.pages[2], num_pages=run.lesson.pages))
    assert text.title(None, 40).startswith(f"Page 3 of {len(run.pages)}")


def test_every_four_pages_have_a_question_with_a_misconception(run):
    for question, truth in zip(run.questions, run.truths, strict=True):
        assert any(not question.is_right(given, truth) for given in question.why), question.question
    quiet = 0
    for page in run.pages[:-1]:
        quiet = 0 if page.asks else quiet + 1
        # The first of four pages after a question is its verdict.
        assert quiet <= 4, f"page {page.number}"
    assert len(run.questions) >= 3


def test_every_page_fits_beside_its_picture_in_the_smallest_terminal(run):
    for page in run.pages:
        rows = LessonText(OnePage(page)).lines(None, *ROOM_OF_80_BY_24)
        drawn = " ".join(" ".join(text_of(row).split()) for row in rows)
        wanted = " ".join(without_marks(clean(page.text)).split())
        # A path longer than a row wraps.
        for words in (wanted, *page.choices):
            assert words.replace(" ", "") in drawn.replace(" ", ""), f"page {page.number}: {drawn}"


def test_every_drawing_is_shown_in_a_terminal_of_the_size_that_the_site_recommends(run):
    for page in run.pages:
        rows = LessonText(OnePage(page)).lines(None, *ROOM_OF_120_BY_36)
        drawn = {text_of(row).rstrip() for row in rows}
        assert {row.rstrip() for row in page.figure} <= drawn, f"page {page.number}"


def test_a_second_run_is_equal_and_its_transcript_holds_every_page(run, lesson_shelf):
    def said(pages: tuple[Page, ...]) -> list[tuple]:
        return [(page.text, page.claims, page.choices, page.focus, page.position) for page in pages]

    player = LessonPlayer(run.lesson, lesson_shelf)
    text = transcript(player)
    assert said(player.pages) == said(run.pages)
    assert all(claim in text for page in run.pages for claim in page.claims)
    assert all(clean(page.text) in text for page in run.pages)
    player.close()


def test_no_page_and_no_picture_of_a_lesson_has_a_replacement_character(run):
    assert len(run.pictures) == len(run.pages) - 1
    shown = "\n".join((*(page.text for page in run.pages), *run.pictures))
    assert "\N{REPLACEMENT CHARACTER}" not in shown


def test_the_lesson_about_serving_shows_text_that_is_held_back(lesson_shelf):
    run = play(find_lesson("serving"), lesson_shelf)
    (page,) = [page for page in run.pages if "is held back" in page.text]
    assert "6." in page.text and "2 of them showed no text." in page.text


def test_the_lesson_about_tokens_holds_on_the_chat_model_too(smollm2):
    run = play(find_lesson("tokens"), ModelShelf("smollm2", smollm2))
    assert run.pages[-1].last
    assert all(
        len(text.split()) <= MAX_WORDS
        for text in (*(page.text for page in run.pages), *run.wrong_verdicts)
    )


def test_the_kernel_ladder_shows_measured_speeds_on_one_page_that_fits_if_there_are_any(
    lesson_shelf, monkeypatch
):
    names = ("naive", "grouped", "split", "static", "unified")
    versions = [MeasuredKernel(name, 1234.5, 900.0, 0.777, 1333.3) for name in names]
    ladders = [MeasuredLadder(64, 4096, versions), MeasuredLadder(1, 16384, versions)]
    measured = MeasuredKernels("NVIDIA H100 80GB HBM3", "2026-11-22", ladders)
    monkeypatch.setattr("minivllm.lessons.course.l18_kernel_ladder.measured_kernels", lambda: None)
    without = play(find_lesson("kernel-ladder"), lesson_shelf)
    monkeypatch.setattr(
        "minivllm.lessons.course.l18_kernel_ladder.measured_kernels", lambda: measured
    )
    run = play(find_lesson("kernel-ladder"), lesson_shelf)
    (page,) = [page for page in run.pages if "NVIDIA H100 80GB" in page.text]
    assert len(run.pages) == len(without.pages) + 2
    assert all(words in page.text for words in ("`static`", "1,234", "78%", "1,333"))
    assert len(page.text.split()) <= MAX_WORDS
    test_every_page_fits_beside_its_picture_in_the_smallest_terminal(run)
    test_every_four_pages_have_a_question_with_a_misconception(run)


def test_a_lesson_runs_to_its_end_with_true_claims_and_short_lit_pages(run):
    assert run.pages[-1].last
    assert sum(len(page.claims) for page in run.pages) >= 3  # a false claim raises
    assert all(page.focus is not None and page.stage is not None for page in run.pages)
    named = next(one.panels for one in COURSE if one.lesson == run.lesson.name)
    assert set(named) <= {page.focus for page in run.pages}
    for text in (*(page.text for page in run.pages), *run.wrong_verdicts):
        assert len(text.split()) <= MAX_WORDS, text
