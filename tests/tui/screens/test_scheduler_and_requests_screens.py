"""The Scheduler and the Requests screen, driven by keys and mouse at the sizes that people have."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.engine.random_traces import folded, standing_at
from textual.app import App
from textual.geometry import Region
from textual.pilot import Pilot

import minivllm.tui
from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.portable import to_ascii
from minivllm.tui.draw.selection import sequence, step
from minivllm.tui.draw.theme import DARK, LIGHT
from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.screens.requests import RequestsScreen
from minivllm.tui.screens.scheduler import SchedulerScreen
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.requests.batch_order import BatchOrder
from minivllm.tui.widgets.requests.request_detail import RequestDetail
from minivllm.tui.widgets.requests.timelines import Timelines
from minivllm.tui.widgets.steps.step_detail import StepDetail
from minivllm.tui.widgets.steps.step_history import StepHistory

PANELS = [StepHistory, StepDetail, BatchOrder, Timelines, RequestDetail]
SIZES = [(80, 24), (120, 36), (200, 60)]


class OneScreen(App[None]):
    """One screen of the dashboard without the others."""

    CSS_PATH = Path(minivllm.tui.__file__).parent / "dashboard.tcss"

    def __init__(self, screen: type[DashboardScreen], model) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name
        self.context = standing_at(model)
        self._one = screen

    async def on_mount(self) -> None:
        await self.push_screen(self._one(self.context))

    def on_panel_chosen(self, message: Panel.Chosen) -> None:
        self.context.selection.choose(message.target)
        self.screen.draw()


def drive(
    screen: type[DashboardScreen], model, script: Callable[[OneScreen, Pilot], Awaitable[None]], size=(120, 36)
) -> None:
    async def main() -> None:
        app = OneScreen(screen, model)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            app.screen.draw()
            await pilot.pause()
            await script(app, pilot)

    asyncio.run(main())


def drawn(app: OneScreen, id: str) -> str:
    panel = app.screen.query_one(f"#{id}", Panel)
    return "\n".join(panel.render_line(y).text for y in range(panel.content_size.height))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("screen", "panels"),
    [
        (SchedulerScreen, {"step-budget", "step-history", "step-detail", "batch-order"}),
        (RequestsScreen, {"timelines", "request-detail"}),
    ],
)
def test_every_panel_of_the_screen_has_its_place(screen, panels: set[str], size, memory_pressure) -> None:
    async def script(app: OneScreen, pilot: Pilot) -> None:
        shown = [panel for panel in app.screen.query(Panel) if panel.display and panel.region.area]
        # On the smallest one the budget gives its rows to the panels that say the same and more.
        hidden = {"step-budget"} if size == (80, 24) else set()
        assert {panel.id for panel in shown} == {"header", "timeline"} | (panels - hidden)
        for number, one in enumerate(shown):
            assert Region(0, 0, *size).contains_region(one.region), one
            assert one.content_size.height >= (1 if one.id in ("header", "timeline") else 3), one
            assert not any(one.region.overlaps(other.region) for other in shown[number + 1 :]), one

    drive(screen, folded(memory_pressure.run(60)), script, size)


@pytest.mark.parametrize("panel", PANELS)
def test_every_panel_explains_itself_in_two_sentences(panel: type[Panel]) -> None:
    assert panel.HELP_TITLE
    assert len(re.findall(r"[a-z)]\.(?: |$)", panel.HELP_TEXT)) == 2
    assert panel.HELP_TEXT.endswith(".")


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("scenario", ["memory_pressure", "samples"])
def test_every_sign_that_is_drawn_has_a_plain_stand_in(panel, scenario: str, request: pytest.FixtureRequest) -> None:
    model = folded(request.getfixturevalue(scenario).run(60))
    for line in panel().lines(model, 90, 40):
        drawn, plain = text_of(line), to_ascii(text_of(line))
        assert len(drawn) == len(plain) and drawn.count("?") == plain.count("?")


def test_the_cursor_goes_from_step_to_step_and_the_details_follow(memory_pressure) -> None:
    async def script(app: OneScreen, pilot: Pilot) -> None:
        history = app.screen.query_one("#step-history", Panel)
        history.move_cursor(-1)
        await pilot.pause()
        assert app.context.selection.last == step(60)
        history.move_cursor(-41)
        await pilot.pause()
        assert app.context.selection.step == 19
        assert "19" in [row.split()[0] for row in drawn(app, "step-history").splitlines()[1:]]
        assert "step 19 " in drawn(app, "step-detail") and "r2 preempted for r0" in drawn(app, "step-detail")

    drive(SchedulerScreen, folded(memory_pressure.run(60)), script)


def test_a_click_on_a_row_chooses_its_step(shared_prefix) -> None:
    async def script(app: OneScreen, pilot: Pilot) -> None:
        history = app.screen.query_one("#step-history", Panel)
        row = next(y for y in range(3, 12) if history.target_at(3, y) is not None)
        chosen = history.target_at(3, row)
        left, top = history.content_region.offset - history.region.offset
        await pilot.click(history, offset=(left + 3, top + row))
        await pilot.pause()
        assert chosen.kind == "step" and app.context.selection.last == chosen

    drive(SchedulerScreen, folded(shared_prefix.run(40)), script)


def test_the_cursor_goes_from_life_to_life_beyond_what_is_in_sight(stage, ask) -> None:
    model = folded(stage([ask(f"r{i}", f"question {i}", "an answer " * 9) for i in range(60)]).run(30))

    async def script(app: OneScreen, pilot: Pilot) -> None:
        timelines = app.screen.query_one("#timelines", Panel)
        timelines.move_cursor(1)
        await pilot.pause()
        assert app.context.selection.last == sequence("r0.0")
        assert "question 0" in drawn(app, "request-detail")
        timelines.move_cursor(45)
        await pilot.pause()
        assert app.context.selection.last == sequence("r45.0")
        assert " r45 " in drawn(app, "timelines") and "question 45" in drawn(app, "request-detail")

    drive(RequestsScreen, model, script)


def test_the_cursor_over_the_steps_begins_at_the_newest(shared_prefix) -> None:
    async def script(app: OneScreen, pilot: Pilot) -> None:
        app.screen.query_one("#step-history", Panel).move_cursor(1)
        await pilot.pause()
        assert app.context.selection.step == 40

    drive(SchedulerScreen, folded(shared_prefix.run(40)), script)
