"""The least app around one screen of the dashboard: its colours, its keys and choosing, as
`DashboardApp` has them.

So that a screen can be driven by itself; the whole app is driven in tests/tui/test_app.py.
"""

import asyncio
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import ClassVar

from textual.app import App
from textual.binding import BindingType
from textual.pilot import Pilot

from minivllm.tui.context import Context
from minivllm.tui.draw.theme import DARK, LIGHT
from minivllm.tui.keys.commands import COMMANDS, bindings, run_command
from minivllm.tui.keys.look_keys import LookKeys
from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.widgets.frame.panel import Panel

SIZES = [(80, 24), (120, 36), (200, 60)]


class ScreenHost(App[None]):
    """Shows one screen."""

    CSS = files("minivllm.tui").joinpath("dashboard.tcss").read_text(encoding="utf-8")
    BINDINGS: ClassVar[list[BindingType]] = bindings()

    def __init__(
        self, screen: type[DashboardScreen], context: Context, keymap: dict[str, str] | None = None
    ) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        self.theme = DARK.name
        self.set_keymap(keymap or {})
        self.context = context
        self.look_keys = LookKeys(self)
        self.shown = screen(context)

    async def on_mount(self) -> None:
        await self.push_screen(self.shown)
        self.shown.draw()

    async def action_command(self, command_id: str) -> None:
        await run_command(COMMANDS, command_id, self)

    def on_panel_chosen(self, message: Panel.Chosen) -> None:
        self.context.selection.choose(message.target)
        self.shown.draw()

    def go(self, position: int) -> None:
        """To another place in time."""
        self.context.transport.to_position(position)
        self.shown.draw()

    def rows(self, id: str) -> list[str]:
        """A panel as it is painted."""
        panel = self.shown.query_one(f"#{id}", Panel)
        return [panel.render_line(y).text for y in range(panel.content_size.height)]


def drive(
    app: App, script: Callable[[Pilot], Awaitable[None]], size: tuple[int, int] = (120, 36)
) -> None:
    """Run `app` without a terminal while `script` presses its keys."""

    async def main() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await script(pilot)

    asyncio.run(main())
