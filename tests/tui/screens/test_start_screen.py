"""The Start screen: the parts of a start until there is an engine, and then the engine."""

from concurrent.futures import Future

import pytest
from support.tui.driven_app import all_drawn, drawn, drive, press, settle, source_of, told, until

from minivllm.cli.starting import nothing_yet
from minivllm.tui.app import DashboardApp
from minivllm.tui.start import Started


class HeldStart:
    """A start that ends when the test says so."""

    def __init__(self) -> None:
        self.started: Future[Started] = Future()
        self.text = ""

    def begin(self) -> None:
        self.text = "importing PyTorch"


def starting_app(**options: object) -> tuple[DashboardApp, HeldStart]:
    start = HeldStart()
    return DashboardApp(nothing_yet("house"), start=start, **options), start


@pytest.mark.parametrize(("size", "ascii"), [((40, 12), True), ((120, 36), False)])
def test_the_start_says_what_it_does(size: tuple[int, int], ascii: bool) -> None:
    app, start = starting_app(ascii=ascii)

    async def script(pilot) -> None:
        await until(pilot, lambda: start.text)
        for text in ("importing PyTorch", "loading house"):
            start.text = text
            await until(pilot, lambda text=text: text in drawn(app, "start-line")[0])
        assert "LOADING" in drawn(app, "header")[0]
        assert not ascii or all_drawn(app).isascii()

    drive(app, script, size)


def test_during_the_start_a_key_that_needs_an_engine_says_so() -> None:
    app, _ = starting_app()

    async def script(pilot) -> None:
        for key in ("a", "2", "right", "E"):
            await press(pilot, key)
            assert told(app) == ["The model is still loading."], key
            assert app.current_mode == "start"
            await pilot.press("escape")
        await pilot.click("#tabs", offset=(drawn(app, "tabs")[0].index("3"), 0))
        await settle(pilot)
        assert app.current_mode == "start"
        await press(pilot, "question_mark")
        assert len(app.screen_stack) == 2, "the help opens"

    drive(app, script)


def test_after_the_start_the_first_screen_draws_the_engine(shared_prefix) -> None:
    run = shared_prefix.run(20)
    app, start = starting_app(watch="How blocks are shared.")

    async def script(pilot) -> None:
        await press(pilot, "a")
        assert told(app) == ["The model is still loading."] and app.current_mode == "start"
        start.started.set_result(Started(source_of(run)))
        await until(pilot, lambda: app.current_mode == "overview")
        await until(pilot, lambda: app.model.fold.step == run.events[-1].step)
        await settle(pilot)
        text = all_drawn(app)
        assert "LOADING" not in text and "How blocks are shared." in text and not told(app)
        await pilot.press("2")
        await until(pilot, lambda: app.current_mode == "blocks")

    drive(app, script)
