"""The frame of each screen: the top line's numbers can be clicked, and keys are below."""

from collections.abc import Callable

import pytest
from rich.cells import cell_len
from support.tui.driven_app import app_for, drawn, drive, keys_of, panel, settle, show_screen, until
from support.tui.key_seat import FakeControl
from textual.pilot import Pilot

from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.selection import sequence


def test_a_click_on_a_number_of_the_top_line_opens_its_screen(memory_pressure) -> None:
    control = FakeControl()
    app = app_for(memory_pressure.run(20), control=control)

    async def click(pilot: Pilot, words: str, reached: Callable[[], bool]) -> None:
        await until(pilot, lambda: words in drawn(app, "header")[0])
        await pilot.click(panel(app, "header"), offset=(drawn(app, "header")[0].index(words), 0))
        await until(pilot, reached)
        await settle(pilot)

    async def script(pilot: Pilot) -> None:
        for words, name in {"used": "blocks", "step": "scheduler", "preempted": "requests"}.items():
            await click(pilot, words, lambda name=name: app.current_mode == name)
        transport = app.context.transport
        await click(pilot, "LIVE", lambda: transport.state == "paused")
        await click(pilot, "runs on", lambda: transport.state != "paused")
        transport.to_live()
        control.pause()
        app.draw()
        await click(pilot, "PAUSED at", lambda: control.calls[-1:] == [("resume",)])

    drive(app, script, (200, 50))


# ---- keys in the bottom line ----


def test_the_keys_are_those_of_the_panel_with_the_focus(memory_pressure) -> None:
    app = app_for(memory_pressure.run(20), control=FakeControl())
    expected = {
        ("overview", None): ("Panel", "Why?", "Race", "Ask"),
        ("overview", "slots"): ("Select", "Why?", "Abort"),
        ("overview", "eventlog"): ("Select", "Source", "Filter", "Event"),
        ("blocks", "blocks-inspector"): ("Select", "Attention", "X-ray"),
        ("scheduler", "step-history"): ("Select", "Source"),
        ("requests", "timelines"): ("Select", "Abort"),
    }

    async def script(pilot: Pilot) -> None:
        for (name, focused), labels in expected.items():
            await show_screen(pilot, name)
            app.screen.set_focus(None if focused is None else panel(app, focused))
            await settle(pilot)
            assert set(labels) <= set(keys_of(app))
            assert ("Select" in keys_of(app)) == bool(focused)
        app.context.selection.choose(sequence("r0.0"))
        await show_screen(pilot, "overview")
        app.screen.set_focus(panel(app, "slots"))
        await settle(pilot)
        assert "Inspect" in keys_of(app)

    drive(app, script, (200, 50))


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (300, 80)])
def test_fixed_keys_are_always_there_and_no_key_answer_or_window_is_cut(size, memory_pressure):
    app = app_for(memory_pressure.run(20), control=FakeControl())

    def check_the_keys(*more: str) -> None:
        (line,) = app.dashboard_screen.keybar.lines(app.model, size[0], 1)
        assert cell_len(text_of(line)) <= size[0] and "…" not in text_of(line)
        keys = {text.strip() for text, style, *_ in line if style == "accent*"}
        assert keys >= {"space", "←", "→", "w", "?", "q", *more}

    async def script(pilot: Pilot) -> None:
        for number in "1234567":
            await pilot.press(number, "tab")
            await settle(pilot)
            assert {"Help", "Quit"} <= set(keys_of(app))
            check_the_keys()
            app.tell("How long can an answer be?" * 30, "Why?", stays=True)
            await until(pilot, lambda: app.screen.notice.region.area)
            await settle(pilot)
            check_the_keys("esc")
            notice, rows = app.screen.notice, app.screen._compositor.render_strips()
            foot = [row for id in ("notice", "timeline", "keybar") for row in drawn(app, id)]
            assert [row.text for row in rows][-len(foot) :] == foot
            read = {*foot}
            while notice.first_row < notice.num_hidden:
                await pilot.press("pagedown")
                read.update(drawn(app, "notice"))
            assert {text_of(row) for row in notice.rows(size[0])} <= {row.rstrip() for row in read}
        app.screen.set_focus(None)
        await pilot.press("question_mark")
        await settle(pilot)
        assert "Useful&#160;here" in app.export_screenshot()
        await pilot.press("escape", "a")
        await settle(pilot)
        box, parts = app.screen.query_one("#ask").content_region, app.screen.query("Input, Static")
        assert all(box.contains_region(part.region) for part in parts if part.id != "hint")

    drive(app, script, size)
