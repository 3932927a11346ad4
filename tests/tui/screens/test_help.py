"""Help: the focused panel first, then every key as it is now, then the rest."""

from support.tui.driven_app import until
from support.tui.memory_recording import context_of
from support.tui.screen_host import ScreenHost, drive, push
from textual.pilot import Pilot
from textual.widgets import Static

from minivllm.tui.keys.commands import COMMANDS
from minivllm.tui.screens.events import EventsScreen
from minivllm.tui.screens.help import HelpScreen, keys_now


def text_on(screen: HelpScreen) -> list[str]:
    """Everything in the window, row by row, also what must be scrolled to."""
    return [line.text.rstrip() for one in screen.query(Static) for line in one.render_lines(one.size.region)]


def test_the_focused_panel_comes_first_then_every_key_as_it_is_now_then_the_others(memory_pressure) -> None:
    keymap = {"time.step": "ctrl+right", "time.goto": "y,question_mark", "app.help": "f1"}
    app = ScreenHost(EventsScreen, context_of(memory_pressure.run(10)), keymap)

    async def script(pilot: Pilot) -> None:
        now = keys_now(app.shown)
        assert now["time.step"] == ["ctrl+right"] and sorted(now["time.goto"]) == ["question_mark", "y"]
        assert now["time.step_back"] == ["left", "h"]
        panels = list(app.shown.panels())
        screen = HelpScreen(panels, app.focused)
        await push(app, screen, pilot)
        rows = text_on(screen)
        text = " ".join(" ".join(rows).split())
        assert rows[0].startswith("Events  ")
        assert all(command.label in text for command in COMMANDS)
        assert {command.group for command in COMMANDS} <= set(rows)
        assert all(f"{panel.HELP_TITLE} {panel.HELP_TEXT}" in text for panel in panels)
        assert text.index("Time ") < text.index("Top line")
        assert any(row.split()[:2] == ["ctrl+right", "Step"] for row in rows)
        assert any(row.startswith("← h") for row in rows)
        assert all(len(row) <= 80 for row in rows)
        box = screen.query_one("#help")
        await pilot.press("end")
        await until(pilot, lambda: box.scroll_y == box.max_scroll_y > 20)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.shown

    drive(app, script, (80, 24))
