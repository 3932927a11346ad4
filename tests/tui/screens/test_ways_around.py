"""What shows a newcomer the way: the footer, the time bar under the mouse, sentences that can be closed, zooming and back."""

import pytest
from support.tui.driven_app import FRAME, app_for, drawn, drive, panel, settle, show_screen, told
from support.tui.fake_control import FakeControl
from textual.pilot import Pilot
from textual.widgets._footer import FooterKey


def test_the_time_bar_is_clicked_and_dragged(memory_pressure) -> None:
    app = app_for(memory_pressure.run())

    async def script(pilot: Pilot) -> None:
        transport, bar = app.context.transport, panel(app, "timeline")
        total = len(transport.recording)
        await pilot.click(bar, offset=(20, 0))
        await settle(pilot)
        assert transport.state == "paused" and 0.4 < transport.position / total < 0.6
        assert transport.position == transport.recording.step_end(app.model.fold.step)
        assert drawn(app, "timeline")[0].index("●") in (19, 20, 21)
        await pilot.mouse_down(bar, offset=(20, 0))
        before = transport.position
        for x in (15, 10, 5):
            await pilot.hover(bar, offset=(x, 0))
            await settle(pilot)
            assert transport.position < before
            before = transport.position
        await pilot.hover(bar, offset=(0, 0))
        await pilot.mouse_up(bar, offset=(0, 0))
        await settle(pilot)
        assert transport.position == 0
        await pilot.hover(bar, offset=(15, 0))  # the button is up
        await pilot.click(bar, offset=(60, 0))  # beside the slider
        await settle(pilot)
        assert transport.position == 0
        await pilot.click(bar, offset=(40, 0))
        await settle(pilot)
        assert transport.state == "live"

    drive(app, script)


def test_what_was_told_is_closed_before_anything_else_and_an_answer_stays_until_then(memory_pressure) -> None:
    app = app_for(memory_pressure.run(20))

    async def script(pilot: Pilot) -> None:
        await pilot.press("2", "tab", "down", "w")
        await settle(pilot)
        assert [(one.title[:4], one.timeout > 3600) for one in app._notifications] == [("Why?", True)]
        for _ in range(2):
            app.tell("Something passes.")
            await settle(pilot)
            assert sorted(one.timeout > 3600 for one in app._notifications) == [False, True]
        await pilot.press("escape")
        await settle(pilot)
        assert (len(app._notifications), app.current_mode) == (0, "blocks")
        await pilot.press("escape")
        await settle(pilot)
        assert app.current_mode == "overview"

    drive(app, script)


def test_a_panel_that_fills_the_screen_leaves_the_time_and_the_way_back(memory_pressure) -> None:
    app = app_for(memory_pressure.run(20))

    async def script(pilot: Pilot) -> None:
        await pilot.press("z")
        assert "No panel has the focus" in told(app)[-1]
        await pilot.press("escape", "tab", "z")
        await settle(pilot)
        keys = {key.description: key for key in app.screen.query(FooterKey)}
        assert all(panel(app, one).region.area for one in ("slots", "header", "timeline"))
        assert not panel(app, "blockmap").region.area
        assert keys["Back to all panels"].key_display == "z" and keys["Back to all panels"].region.area
        await pilot.press("escape")
        await settle(pilot)
        assert panel(app, "blockmap").region.area

    drive(app, script)


@pytest.mark.parametrize("steered", [False, True])
def test_the_footer_names_what_can_be_done_on_this_screen(steered: bool, memory_pressure) -> None:
    app = app_for(memory_pressure.run(20), control=FakeControl() if steered else None)

    async def script(pilot: Pilot) -> None:
        shown = {}
        for name in ("overview", "blocks", "events"):
            await show_screen(pilot, name)
            await pilot.pause(FRAME)
            shown[name] = [key.description for key in app.screen.query(FooterKey)]
        engine = {"Pause engine", "Ask", "Burst", "Engine step", "Option", "Abort"}
        assert engine <= set(shown["overview"]) if steered else engine.isdisjoint(shown["overview"])
        assert "Inspect" in shown["blocks"] and "Inspect" not in shown["overview"]
        assert ({"Mass", "X-ray"} <= set(shown["blocks"])) == steered
        assert "Filter" in shown["events"]

    drive(app, script, (200, 50))
