"""Help: the focused panel first, then every key as it is now, then the rest."""

import pytest
from support.tui.memory_recording import context_of
from support.tui.screen_host import SIZES, ScreenHost, drive, push
from textual.pilot import Pilot
from textual.widgets import Static

from minivllm.tui.keys.commands import COMMANDS
from minivllm.tui.screens.events import EventsScreen
from minivllm.tui.screens.help import HelpScreen, keys_now


def text_on(screen: HelpScreen) -> list[str]:
    """Everything in the window, row by row, also what must be scrolled to."""
    return [line.text.rstrip() for one in screen.query(Static) for line in one.render_lines(one.size.region)]


@pytest.mark.parametrize("size", SIZES)
def test_the_focused_panel_comes_first_then_every_key_then_the_others(size: tuple[int, int], memory_pressure) -> None:
    app = ScreenHost(EventsScreen, context_of(memory_pressure.run(10)))

    async def script(pilot: Pilot) -> None:
        panels = list(app.shown.panels())
        screen = HelpScreen(panels, app.focused)
        await push(app, screen, pilot)
        rows = text_on(screen)
        text = " ".join(" ".join(rows).split())
        assert rows[0].startswith("Events  Everything that the engine said")
        assert all(command.label in text for command in COMMANDS)
        for group in ("Time", "Screens", "Look", "Engine", "Dashboard"):
            assert group in rows
        for words in ("← h", "esc", "? f1", "ctrl+s", "pagedown"):
            assert words in text
        for panel in panels:
            assert f"{panel.HELP_TITLE} {panel.HELP_TEXT}" in text
        assert text.index("Time ") < text.index("Top line")
        assert all(len(row) <= size[0] for row in rows)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.shown

    drive(app, script, size)


def test_a_persons_own_keys_stand_in_place_of_the_usual_ones(memory_pressure) -> None:
    keymap = {"time.step": "ctrl+right", "time.goto": "y,question_mark", "app.help": "f1"}
    app = ScreenHost(EventsScreen, context_of(memory_pressure.run(10)), keymap)

    async def script(pilot: Pilot) -> None:
        now = keys_now(app.shown)
        assert now["time.step"] == ["ctrl+right"] and sorted(now["time.goto"]) == ["question_mark", "y"]
        assert now["time.step_back"] == ["left", "h"]
        screen = HelpScreen(list(app.shown.panels()), None)
        await push(app, screen, pilot)
        rows = text_on(screen)
        assert next(row for row in rows if "To the end of the next step." in row).split()[:2] == ["ctrl+right", "Step"]
        assert next(row for row in rows if "To a step (412)" in row).startswith(("y ?", "? y"))
        assert next(row for row in rows if "To the end of the step before." in row).startswith("← h")

    drive(app, script)


def test_the_page_can_be_scrolled_to_its_end_where_it_is_low(memory_pressure) -> None:
    app = ScreenHost(EventsScreen, context_of(memory_pressure.run(10)))

    async def script(pilot: Pilot) -> None:
        screen = HelpScreen(list(app.shown.panels()), app.focused)
        await push(app, screen, pilot)
        box = screen.query_one("#help")
        assert box.max_scroll_y > 20
        await pilot.press("end")
        await pilot.pause(0.6)
        assert box.scroll_y == box.max_scroll_y

    drive(app, script, (80, 24))
