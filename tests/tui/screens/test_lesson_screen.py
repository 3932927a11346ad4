"""The lesson screen, driven by keys: pages, guesses, the lit panel, and going back in time."""

import pytest
from support.docs import small_lesson
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)
from support.tui.driven_app import FRAME, drawn, drive, panel, show_screen, until, visible
from textual.widgets._footer import FooterKey

from minivllm.lessons.teacher.lesson_engine import ModelShelf
from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.tui.app import DashboardApp

SMALL, LARGE = (80, 24), (200, 60)
SHELF = ModelShelf("tiny-random")


def lesson_app(**options) -> DashboardApp:
    player = LessonPlayer(small_lesson.run, SHELF)
    return DashboardApp(player.page.stage.source, lesson=player, **options)


def words(app) -> str:
    return " ".join(" ".join(drawn(app, "lesson-text")).split())


async def press(pilot, *keys) -> None:
    """Press them, each when the lesson is ready for it."""
    for key in keys:
        await pilot.press(key)
        await until(pilot, lambda: not panel(pilot.app, "lesson-text").busy)
    await until(pilot, lambda: pilot.app.context.transport.state != "playing")
    await pilot.pause(0.15)


def test_a_reader_who_takes_long_is_not_told_that_nothing_came():
    app = lesson_app()

    async def script(pilot):
        app.context.transport.quiet_seconds = 99.0
        lesson, app.context.lesson = app.context.lesson, None
        panel(app, "header").show_again()
        await until(pilot, lambda: "nothing came" in " ".join(drawn(app, "header")))
        app.context.lesson = lesson
        panel(app, "header").show_again()
        await until(pilot, lambda: "nothing came" not in " ".join(drawn(app, "header")))
        assert "LIVE" in " ".join(drawn(app, "header"))

    drive(app, script, LARGE)


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("ascii", [False, True])
def test_a_lesson_is_read_and_answered_to_its_end(size, ascii):
    app = lesson_app(ascii=ascii)

    async def script(pilot):
        assert "ada has 6 tokens." in words(app)
        await press(pilot, "space")
        assert "How many blocks?" in words(app)
        assert app.model.fold.step == 0
        await press(pilot, "space")
        assert "Type a number." in words(app)
        assert "LIVE" in " ".join(drawn(app, "header")), "a guess that is none does not stop the picture"
        await press(pilot, "4", "backspace", "1", "enter")
        assert "it is 2 blocks" in words(app)
        assert small_lesson.WHY in words(app)
        assert app.model.fold.step == 1
        await press(pilot, "enter")
        assert "ada holds two blocks" in words(app)
        await press(pilot, "space", "2", "enter")
        assert "Right: yes" in words(app)
        await press(pilot, "space")
        assert "1 of 2" in words(app)
        if ascii:
            assert all(character.isascii() for one in visible(app) for character in "".join(drawn(app, one.id)))

    drive(app, script, size)


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_one_panel_is_lit_and_the_others_are_dim(size):
    app = lesson_app()

    async def script(pilot):
        lit = panel(app, "lesson-blockmap")
        assert lit.opacity == 1
        assert lit.region.area
        others = [one for one in visible(app) if (one.id or "").startswith("lesson-") and one.id != "lesson-text"]
        assert len(others) >= 2
        assert all(one.opacity < 1 for one in others if one is not lit)
        await press(pilot, "space", "2", "enter", "space")
        assert panel(app, "lesson-slots").opacity == 1
        assert lit.opacity < 1

    drive(app, script, size)


def test_back_shows_the_page_before_and_the_picture_as_it_was():
    app = lesson_app()

    async def script(pilot):
        await press(pilot, "space", "2", "enter")
        engine, events = small_lesson.SPY.engines[-1], len(small_lesson.SPY.engines[-1].events)
        now = drawn(app, "lesson-blockmap")
        await press(pilot, "b")
        assert "How many blocks?" in words(app)
        assert app.model.fold.step == 0
        assert drawn(app, "lesson-blockmap") != now
        await press(pilot, "space")
        assert drawn(app, "lesson-blockmap") == now
        assert len(engine.events) == events

    drive(app, script)


def test_digits_are_the_guess_while_a_question_is_open_and_screens_else():
    app = lesson_app()

    async def script(pilot):
        await press(pilot, "space", "3")
        assert app.current_mode == "lesson"
        assert "Your guess: 3" in words(app)
        await press(pilot, "enter")
        await show_screen(pilot, "blocks")
        assert app.current_mode == "blocks"
        await pilot.press("0")
        await until(pilot, lambda: app.current_mode == "lesson")

    drive(app, script)


def test_a_guess_that_is_none_is_not_left_in_the_field():
    app = lesson_app()

    async def script(pilot):
        await press(pilot, "space", "3", ".", ".", "enter")
        assert app.dashboard_screen._text.trouble, "3.. is no number"
        assert app.dashboard_screen._text.typed == ""
        await press(pilot, "2", "enter")
        assert app.model.fold.step == 1, "what was typed next was the guess, and all of it"

    drive(app, script)


def test_the_footer_names_the_keys_of_the_lesson_and_the_way_back_to_it():
    app = lesson_app()

    async def script(pilot):
        def shown():
            return {key.description: key.key_display for key in app.screen.query(FooterKey)}

        assert (shown()["Go on"], shown()["Page back"]) == ("space", "b")
        await show_screen(pilot, "blocks")
        await pilot.pause(FRAME)
        assert shown()["Lesson"] == "0"

    drive(app, script)


def test_the_other_screens_show_the_lessons_engine():
    app = lesson_app()

    async def script(pilot):
        await press(pilot, "space", "2", "enter")
        await show_screen(pilot, "requests")
        await until(pilot, lambda: "ada" in "".join(drawn(app, "timelines")))
        assert app.current_mode == "requests"

    drive(app, script)


def test_help_names_the_keys_of_the_lesson():
    app = lesson_app()

    async def script(pilot):
        await pilot.press("question_mark")
        await pilot.pause(0.2)
        keys = app.screen.query_one("#keys").content
        assert "Go on" in [str(cell) for cell in keys.columns[1].cells]

    drive(app, script)


def test_the_steps_of_a_page_are_played_and_end_at_the_newest():
    app = lesson_app()

    async def script(pilot):
        await press(pilot, "space", "2", "enter", "space", "space", "2")
        await pilot.press("enter")
        await until(pilot, lambda: app.context.transport.state == "playing")
        await until(pilot, lambda: app.context.transport.state == "live")
        assert app.model.fold.counters.finished_requests == 1

    drive(app, script)


def test_a_claim_that_is_not_so_ends_the_dashboard_with_a_sentence():
    from minivllm.errors import LessonError

    app = lesson_app()

    async def script(pilot):
        def fail():
            raise LessonError("The lesson says what is not so.")

        app.context.lesson.forward = fail
        await pilot.press("space")
        await until(pilot, lambda: app.return_code == 1)

    drive(app, script)
    assert app.return_code == 1
