"""A lesson forward, back and answered, page by page."""

import pytest
from support.docs import small_lesson
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)

from minivllm.errors import LessonError
from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.lessons.teacher.progress import Place, Progress
from minivllm.lessons.teacher.script import Predict, Say, Teacher, lesson


@pytest.fixture
def player(lesson_shelf, tmp_path):
    player = LessonPlayer(
        small_lesson.run, lesson_shelf, progress=Progress(tmp_path / "progress.json")
    )
    yield player
    player.close()


def progress_of(player):
    return player._progress.read().lessons["small"]


def test_going_back_runs_nothing_and_shows_the_page_at_its_own_moment(player):
    player.forward()
    player.answer("2")
    engine = small_lesson.ENGINES[-1]
    events, built, newest = len(engine.events), len(small_lesson.ENGINES), player.page
    player.back()
    player.back()
    assert player.page.number == 1
    assert player.page.position < newest.position
    assert player.back() is not None
    player.forward()
    assert player.page.given == "2"
    assert not player.page.waits
    player.forward()
    assert player.page is newest
    assert player.at_newest
    assert (len(engine.events), len(small_lesson.ENGINES)) == (events, built)


def test_the_end_shows_the_score_and_first_answers_are_kept(player):
    player.forward()
    player.answer("1")
    player.forward()
    player.forward()
    player.answer("2")
    player.forward()
    assert player.over
    assert "1 of 2" in player.page.text
    assert player.forward() is not None
    kept = progress_of(player)
    assert kept.finished
    assert [kept.first_answers[number].right for number in ("1", "2")] == [False, True]


def test_a_false_claim_ends_the_lesson_with_a_sentence(lesson_shelf):
    @lesson(1, "wrong", "Wrong", minutes=5)
    def run(L: Teacher):
        engine = L.engine()
        yield L.say("Blocks are free.")
        L.check("no block is free", engine.num_free == 0)
        yield L.say("So it is.")

    player = LessonPlayer(run, lesson_shelf)
    with pytest.raises(LessonError, match="no block is free"):
        player.forward()
    player.close()


def test_a_lesson_resumes_where_it_was_left_with_its_answers(player, lesson_shelf):
    player.forward()
    player.answer("1")
    player.forward()
    left_at = progress_of(player).left_at
    assert (left_at.page, left_at.answers) == (4, ["1"])
    again = LessonPlayer(small_lesson.run, lesson_shelf, progress=player._progress, resume=left_at)
    assert again.page.text == player.page.text
    assert (again.page.number, again.score) == (4, (0, 1))
    again.forward()
    again.answer("yes")
    again.forward()
    assert "1 of 2" in again.page.text
    assert progress_of(again).left_at is None, "it is over"
    again.close()


def test_the_place_is_not_lost_while_a_lesson_is_opened_again(player, lesson_shelf, monkeypatch):
    player.forward()
    player.answer("1")
    left_at = progress_of(player).left_at
    monkeypatch.setattr(LessonPlayer, "answer", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        LessonPlayer(small_lesson.run, lesson_shelf, progress=player._progress, resume=left_at)
    assert progress_of(player).left_at == left_at


def test_a_saved_answer_that_is_no_longer_valid_is_skipped(lesson_shelf):
    player = LessonPlayer(small_lesson.run, lesson_shelf, resume=Place(7, ["perhaps"]))
    assert player.over
    assert player.score == (0, 0)
    player.close()


def test_a_lesson_waits_for_an_answer_and_ignores_nonsense(player):
    player.forward()
    engine = small_lesson.ENGINES[-1]
    assert player.page.waits and player.forward()
    for typed in ("", "two", "nan", "inf", "1e999", "-", "²"):
        assert player.answer(typed) is not None, typed
    assert (player.page.number, engine.fold.step) == (2, 0)
    assert player.answer("2") is None
    assert (engine.fold.step, player.page.right) == (1, True)
    player.forward()
    assert player.page.claims == ("ada holds two blocks",)
    player.forward()
    assert player.page.choices == ("no", "yes") and player.answer("3") is not None
    assert player.answer("YES") is None and player.page.right is True


@pytest.mark.parametrize(("given", "foreseen"), [("1", True), ("5", False)])
def test_a_wrong_answer_gets_its_misconceptions_sentence_and_is_final(player, given, foreseen):
    player.forward()
    player.answer(given)
    assert player.page.right is False and "2 blocks" in player.page.text
    assert (small_lesson.WHY in player.page.text) == foreseen
    player.back()
    assert player.answer("2") is not None
    assert player.score == (0, 1)


def test_invalid_lesson_content_is_refused():
    Say(text="word " * 60)
    with pytest.raises(LessonError, match="61 words"):
        Predict(question="word " * 59, answer=lambda: 1, why={}, choices=("two words",))
    with pytest.raises(LessonError, match="maybe"):
        Predict(question="?", answer=lambda: "yes", why={"maybe": "No."}, choices=("yes", "no"))
    with pytest.raises(LessonError, match="blokmap"):
        Teacher(build=None).focus("blokmap")


def test_a_guess_of_a_measured_number_may_be_slightly_off():
    question = Predict(question="?", answer=lambda: 100, why={}, tolerance=0.1, unit="%")
    assert question.verdict(109, 100).right
    assert not question.verdict(111, 100).right
    assert question.read("109 %") == 109
    # And a choice may have a comma.
    question = Predict(question="?", answer=lambda: "no", why={}, choices=("none, all wait", "no"))
    assert question.read("None, all wait") == "none, all wait"
