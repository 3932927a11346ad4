"""The Scheduler and the Requests screen, driven by keys and mouse at the sizes that people have."""

from support.tui.memory_recording import context_of
from support.tui.screen_host import ScreenHost, drive
from textual.pilot import Pilot

from minivllm.tui.draw.selection import step
from minivllm.tui.screens.scheduler import SchedulerScreen
from minivllm.tui.widgets.frame.panel import Panel


def test_the_cursor_goes_from_step_to_step_from_the_newest_and_a_click_chooses_one(
    memory_pressure,
) -> None:
    app = ScreenHost(SchedulerScreen, context_of(memory_pressure.run(60)))

    async def script(pilot: Pilot) -> None:
        history = app.shown.query_one("#step-history", Panel)
        history.move_cursor(1)
        await pilot.pause()
        assert app.context.selection.last == step(60)
        history.move_cursor(-41)
        await pilot.pause()
        assert app.context.selection.step == 19
        assert "19" in [row.split()[0] for row in app.rows("step-history")[1:] if row.strip()]
        detail = "\n".join(app.rows("step-detail"))
        assert "step 19 " in detail and "r2 preempted for r0" in detail
        row = next(y for y in range(3, 12) if history.target_at(3, y) is not None)
        chosen = history.target_at(3, row)
        left, top = history.content_region.offset - history.region.offset
        await pilot.click(history, offset=(left + 3, top + row))
        await pilot.pause()
        assert chosen.kind == "step" and app.context.selection.last == chosen

    drive(app, script)
