"""`--ascii`: also the windows, what is said, and Textual's own parts are drawn in 7-bit characters."""

import html
import io

from rich.console import Console
from support.tui.driven_app import app_for, drive, settle, told, until
from textual.pilot import Pilot

from minivllm.tui.draw.portable import Ascii


def test_every_window_is_drawn_in_plain_characters(memory_pressure) -> None:
    app = app_for(memory_pressure.run(60), watch="Blocks → queue", ascii=True)

    async def script(pilot: Pilot) -> None:
        async def opens(keys: str) -> None:
            await pilot.press(*keys.split())
            await until(pilot, lambda: len(app.screen_stack) > 1)
            await settle(pilot)
            strange = {one for one in html.unescape(app.export_screenshot()) if not one.isascii()} - {"\xa0"}
            assert strange == set(), keys
            await pilot.press("escape")
            await settle(pilot)

        for keys in ("question_mark", "ctrl+p", "g", "slash", "4 question_mark", "left m left D", "5 tab up s"):
            await opens(keys)
        await pilot.press("1", "left", "enter")
        app.tell("↑ and ↓")
        await until(pilot, lambda: told(app) == ["^ and v"])

    drive(app, script)


def test_what_rich_draws_itself_is_turned_into_plain_characters() -> None:
    console = Console(width=20, file=io.StringIO(), record=True)
    console.print(Ascii("❱ a · b"))
    assert console.export_text() == "> a . b\n"
