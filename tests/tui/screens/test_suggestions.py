"""`live` begins with three suggestions, each with its key; they go at the first request."""

import pytest
from support.tui.driven_app import app_for, drawn, drive, panel, put, settle, until
from support.tui.key_seat import FakeControl
from textual.pilot import Pilot

from minivllm.tui.screens.dialogs import QuestionScreen


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (120, 36), (200, 50)])
def test_three_suggestions_are_shown_until_the_first_request_arrives(
    size: tuple[int, int], memory_pressure, no_footer
) -> None:
    events, memory_pressure.events = memory_pressure.run(3).events, []
    keys = {"engine.burst": "f7"}
    app = app_for(
        memory_pressure, watch="Watch.", control=FakeControl(), suggests=True, keymap=keys
    )

    async def script(pilot: Pilot) -> None:
        await until(pilot, lambda: panel(app, "suggestions").region.area)
        rows = drawn(app, "suggestions")
        words = " ".join(" ".join(rows).split())
        assert [row[:4].strip() for row in rows if row[:4].strip()] == ["a", "f7", "N"]
        for fact in ("Ask the model a question", "four requests", "schedule, execute, sample."):
            assert size[0] < 80 or fact in words
        assert not panel(app, "watch").display, "it says the same"
        assert panel(app, "timeline").region.bottom == size[1] - 1, "nothing is pushed out"
        put(app, *events)
        await until(pilot, lambda: not panel(app, "suggestions").display)
        await pilot.press("home")
        await settle(pilot)
        assert app.model.fold.step == 0 and not panel(app, "suggestions").display
        assert panel(app, "watch").display

    drive(app, script, size)


def test_a_click_on_a_suggestion_does_it(memory_pressure, no_footer) -> None:
    memory_pressure.events = []
    control = FakeControl()
    app = app_for(memory_pressure, control=control, suggests=True)

    async def script(pilot: Pilot) -> None:
        await until(pilot, lambda: panel(app, "suggestions").region.area)
        for row, call in ((2, "add_burst"), (3, "step_phase")):
            await pilot.click("#suggestions", offset=(12, row))
            await until(pilot, lambda call=call: (call,) in control.calls)
        await pilot.click("#suggestions", offset=(12, 1))
        await until(pilot, lambda: isinstance(app.screen, QuestionScreen))

    drive(app, script)


def test_a_dashboard_of_another_run_suggests_nothing(memory_pressure, no_footer) -> None:
    memory_pressure.events = []
    app = app_for(memory_pressure, control=FakeControl())

    async def script(pilot: Pilot) -> None:
        await settle(pilot)
        assert not panel(app, "suggestions").display

    drive(app, script)
