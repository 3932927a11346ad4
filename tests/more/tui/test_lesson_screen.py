"""The lesson screen, driven by keys: pages, guesses, the lit panel, and going back."""

from support.docs import small_lesson
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)
from support.tui.driven_app import click, drawn, drive, keys_of, panel, settle, until, visible

from minivllm.lessons.teacher.lesson_engine import ModelShelf
from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.tui.app import DashboardApp

SHELF = ModelShelf()


def lesson_app(**options) -> DashboardApp:
    player = LessonPlayer(small_lesson.run, SHELF)
    return DashboardApp(player.page.stage.source, lesson=player, **options)


def words(app) -> str:
    return " ".join(" ".join(drawn(app, "lesson-text")).split())


async def press(pilot, *keys) -> None:
    """Press each key when the lesson is ready for it."""
    for key in keys:
        await pilot.press(key)
        await until(pilot, lambda: not panel(pilot.app, "lesson-text").busy)
    await until(pilot, lambda: pilot.app.context.transport.state != "playing")
    await settle(pilot)


def test_a_lesson_is_read_and_answered_to_its_end():
    app = lesson_app(ascii=True)

    async def script(pilot):
        assert "ada has 6 tokens." in words(app)
        check_that_only(app, "lesson-blockmap")
        await press(pilot, "space")
        assert "How many blocks?" in words(app)
        assert app.model.fold.step == 0
        await until(pilot, lambda: "Go on" not in keys_of(app))
        await press(pilot, "space")
        assert app.dashboard_screen._text.trouble, "nothing was typed"
        assert "LIVE" in drawn(app, "header")[0], "a guess that is none stops no picture"
        await press(pilot, "c")
        assert app.dashboard_screen._text.trouble and not app.has_sentences, "no key, and no guess"
        await press(pilot, "3", ".", ".", "enter")
        assert app.dashboard_screen._text.trouble and app.dashboard_screen._text.typed == ""
        await press(pilot, "4", "backspace", "1", "enter")
        assert small_lesson.WHY in words(app) and "2 blocks" in words(app)
        assert app.model.fold.step == 1
        await press(pilot, "enter")
        assert "ada holds two blocks" in words(app)
        await press(pilot, "space", "2")
        await pilot.press("enter")
        await until(pilot, lambda: app.context.transport.state == "playing")
        await until(pilot, lambda: app.context.transport.state == "live")
        assert app.model.fold.counters.finished_requests == 1
        assert "Right: yes" in words(app)
        check_that_only(app, "lesson-slots")
        await until(pilot, lambda: "Go on" in keys_of(app))
        await press(pilot, "space")
        assert "1 of 2" in words(app)
        await until(pilot, lambda: "Go on" not in keys_of(app))
        await press(pilot, "b")
        await until(pilot, lambda: "Go on" in keys_of(app))
        assert all("".join(drawn(app, panel.id)).isascii() for panel in visible(app))
        await press(pilot, "space", "enter")
        assert app.return_value == "next", "the command opens the next lesson"

    drive(app, script, (80, 24))


def test_back_shows_the_page_and_picture_before_and_a_second_click_on_an_answer_gives_it():
    app = lesson_app()

    async def script(pilot):
        await press(pilot, "space", "2", "enter")
        engine, events = small_lesson.ENGINES[-1], len(small_lesson.ENGINES[-1].events)
        now = drawn(app, "lesson-blockmap")
        await press(pilot, "b")
        assert "How many blocks?" in words(app)
        assert app.model.fold.step == 0
        assert drawn(app, "lesson-blockmap") != now
        await press(pilot, "space")
        assert drawn(app, "lesson-blockmap") == now
        assert len(engine.events) == events
        await press(pilot, "enter", "space")
        for name, typed in (("1 no", "1"), ("2 yes", "2")):
            await click(pilot, "lesson-text", name)
            assert f"Your guess: {typed}" in words(app) and "Is she done" in words(app)
        await click(pilot, "lesson-text", "2 yes")
        await until(pilot, lambda: "Right: yes" in words(app))

    drive(app, script)


def test_digits_are_the_guess_while_a_question_is_open_and_screens_else():
    app = lesson_app()

    async def script(pilot):
        assert (keys_of(app)["Go on"], keys_of(app)["Page back"]) == ("space", "b")
        assert drawn(app, "tabs")[0].startswith(" 0 Lesson  1 Overview ")
        assert panel(app, "tabs")._lines[0][1][1] == "accent*!"
        await press(pilot, "space", "3")
        assert app.current_mode == "lesson" and "Your guess: 3" in words(app)
        await press(pilot, "enter")
        await pilot.press("4")
        await until(pilot, lambda: "ada" in "".join(drawn(app, "timelines")))
        assert keys_of(app)["Lesson"] == "0"
        await pilot.press("0")
        await until(pilot, lambda: app.current_mode == "lesson")
        await pilot.resize_terminal(40, 7)
        await until(pilot, lambda: "…" in drawn(app, "lesson-text")[0])
        first = drawn(app, "lesson-text")[0]
        await press(pilot, "down")
        assert drawn(app, "lesson-text")[0] != first

    drive(app, script)


def check_that_only(app, id: str) -> None:
    """Check that one panel is lit and the others are dim."""
    shown = [panel for panel in visible(app) if panel.id.startswith("lesson-")]
    shown.remove(panel(app, "lesson-text"))
    assert len(shown) >= 2 and [panel.id for panel in shown if panel.opacity == 1] == [id]
