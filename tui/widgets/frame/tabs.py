"""The tabs: every screen with its key. The current one is marked, and a click opens a screen.

1 Overview  2 Blocks  3 Scheduler ...     where there is room
1 Overview  2  3  4  5  6                 on a small terminal, beside the top line
"""

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.geometry import Size
from textual.widgets import Tab

from minivllm.tui.keys.commands import COMMANDS
from minivllm.tui.widgets.frame.keybar import bound_commands

ROWS_FOR_TABS = 32
"""On a lower terminal, tabs and top line share a row (`-low` in the style sheet)."""
_ID = "tab-"
"""A tab's id is this and the name of its screen."""
_PADDING = 2
"""Cells around a label."""
_ROOM_FOR_NAME = 60
"""On a terminal with fewer columns, even the current tab is only a key."""
_ROOM_FOR_HEADER = 100


class ScreenTabs(Horizontal):
    def compose(self) -> ComposeResult:
        for name, label in self._labels(self.app.size).items():
            tab = Tab(label, id=f"{_ID}{name}")
            tab.set_class(name == self.screen.NAME, "-active")
            yield tab

    def fit(self, terminal: Size) -> None:
        labels = self._labels(terminal)
        for tab in self.query(Tab):
            label = labels[tab.id.removeprefix(_ID)]
            if label != tab.label:
                tab.label = label

    def _labels(self, terminal: Size) -> dict[str, Content]:
        """Screen name -> its key, and its name where there is room."""
        named = {
            name: f"{self.app.get_key_display(binding)} {binding.description}"
            for name, binding in self._screens().items()
        }
        room = terminal.width - (0 if terminal.height >= ROWS_FOR_TABS else _ROOM_FOR_HEADER)
        is_whole = sum(cell_len(label) + _PADDING for label in named.values()) <= room
        has_name = terminal.width >= _ROOM_FOR_NAME
        return {
            name: Content(
                label
                if is_whole or (has_name and name == self.screen.NAME)
                else label.rpartition(" ")[0]
            )
            for name, label in named.items()
        }

    def _screens(self) -> dict[str, Binding]:
        """Screen name -> its binding, in the order of the commands; a lesson's screen is first."""
        bound = bound_commands(self.screen)
        ids = {"lesson": "screen('lesson')"} if "screen('lesson')" in bound else {}
        ids |= {
            one.id.removeprefix("screen."): one.id for one in COMMANDS if one.group == "Screens"
        }
        return {name: bound[command_id] for name, command_id in ids.items()}

    async def on_tab_clicked(self, event: Tab.Clicked) -> None:
        event.stop()
        await self.app.action_screen(event.tab.id.removeprefix(_ID))
