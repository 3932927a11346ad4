"""A lesson on text streams: output, typed input, and a pipe without input."""

import io

import pytest
from support.docs import small_lesson
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)

from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.lessons.teacher.plain import PlainLesson


@pytest.fixture
def give(lesson_shelf):
    """Run the small lesson with these typed lines; return the output."""
    players = []

    def give(typed: str = "", auto: bool = False, ascii: bool = False) -> str:
        player, out = LessonPlayer(small_lesson.run, lesson_shelf), io.StringIO()
        players.append(player)
        PlainLesson(player, io.StringIO(typed), out.write, auto=auto, ascii=ascii).run()
        return out.getvalue()

    yield give
    for player in players:
        player.close()


def test_input_is_a_guess_or_b_or_q_and_anything_else_is_asked_again(give):
    text = give("\ntwo\n\n1\n")
    assert text.count("Type a number.") == 2
    verdict = text.replace("\n", " ").partition("You said 1 block")[2]
    assert "2 blocks" in verdict.partition(small_lesson.WHY)[2]  # the reason is about the guess
    assert give("\n2\nb\nb\n").count("ada has 6 tokens.") == 2
    assert "Two, then." not in give("\n2\nq\n")


def test_the_lit_panel_is_printed_above_the_text_as_it_was_then(give):
    before, _, after = give(auto=True).partition("How many blocks?")
    assert "KV cache  8 blocks of 4 tokens" in before
    assert "▄▄" not in before.replace("█a a's", "")
    assert "▄▄" in after or "██" in after


def test_auto_and_a_pipe_without_answers_print_every_page_without_waiting(give):
    text = give(auto=True)
    assert "2 blocks." in text and "end of A small lesson" in text and "guess" not in text
    assert "end of A small lesson" in give("")
    assert give(auto=True, ascii=True).isascii()
