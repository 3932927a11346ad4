"""The mouse: resting on a thing explains it, and numbers of the top line can be clicked."""

from collections.abc import Callable

import pytest
from support.tui.driven_app import app_for, drawn, drive, panel, settle, until
from support.tui.key_seat import FakeControl
from textual.events import MouseScrollDown
from textual.pilot import Pilot
from textual.widgets import Tooltip

from minivllm.tui.answers.why import why
from minivllm.tui.app import DashboardApp
from minivllm.tui.draw.selection import Selection, Target, sequence


def place_of(app: DashboardApp, id: str, target: Target) -> tuple[int, int]:
    """A place of the target in a panel, relative to the panel with its border."""
    shown = panel(app, id)
    corner, size = shown.content_region.offset - shown.region.offset, shown.content_size
    return next(
        (x + corner.x, y + corner.y)
        for y in range(size.height)
        for x in range(size.width)
        if shown.target_at(x, y) == target
    )


def test_resting_on_a_block_a_slot_or_a_title_explains_it_and_costs_nothing_then(
    memory_pressure, no_footer, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_for(memory_pressure.run(20))
    app.TOOLTIP_DELAY = 0.01
    asked = []
    monkeypatch.setattr(
        "minivllm.tui.answers.why.why", lambda *given: asked.append(given) or why(*given)
    )

    async def script(pilot: Pilot) -> None:
        box, running = app.screen.query_one(Tooltip), app.model.fold.running[0]
        owned = Target("block", str(app.model.fold.sequences[running].block_table[0]))
        for id, target in (
            ("blockmap", owned), ("slots", sequence(running)), ("waiting", None), ("header", None),
        ):  # fmt: skip
            at = place_of(app, id, target) if target else (2, 0)
            await pilot.hover(panel(app, id), offset=at)
            expected = panel(app, id).HELP_TEXT
            if target is not None:
                about = Selection()
                about.choose(target)
                expected = why(app.model, about)
            await until(pilot, lambda said=expected: box.display and said in str(box.visual))
        count = len(asked)
        for _ in range(3):
            app.draw()
            await settle(pilot)
        assert len(asked) == count and app.context.selection.last is None
        await pilot.hover(panel(app, "blockmap"), offset=(1, 3))
        await until(pilot, lambda: not box.display)

    drive(app, script, tooltips=True)


def test_a_click_on_a_number_of_the_top_line_opens_its_screen(memory_pressure, no_footer) -> None:
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
        await click(pilot, "PAUSED", lambda: transport.state != "paused")
        transport.to_live()
        control.pause()
        app.draw()
        await click(pilot, "ENGINE PAUSED", lambda: control.calls[-1:] == [("resume",)])

    drive(app, script, (200, 50))


def test_the_wheel_over_the_slots_does_not_move_the_selection(memory_pressure, no_footer) -> None:
    app = app_for(memory_pressure.run(20))

    async def script(pilot: Pilot) -> None:
        slots, selection = panel(app, "slots"), app.context.selection
        assert slots.targets()
        slots.post_message(MouseScrollDown(slots, 1, 1, 0, 1, 0, False, False, False))
        await settle(pilot)
        assert selection.last is None
        await pilot.press("tab", "down")
        await until(pilot, lambda: selection.last is not None)

    drive(app, script, (120, 36))
