"""Help: the focused panel, the keys of the screen, all others, then the other panels.

The keys, including the user's own (`keymap`), are read from the screen below this window: a window
has no bindings of the app.
"""

from collections import defaultdict
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from minivllm.tui.draw.portable import Ascii, to_ascii
from minivllm.tui.keys.commands import COMMANDS, LESSON_COMMANDS, printed_key
from minivllm.tui.widgets.frame.panel import Panel

_LETTERS = (
    "Letters",
    (
        "A sequence gets a letter when it first enters the batch, and keeps it until it ends. The"
        " letter is the initial of its name if that is free. Capital and small letters are"
        " different sequences. If colours run out, samples or beams of one request share them. A"
        " server's request is named by the first digits of its id."
    ),
)


class HelpScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,f1,q", "dismiss", "Back", id="help.close", key_display="esc")
    ]

    def __init__(self, panels: list[Panel], focused: Panel | None, ascii: bool = False) -> None:
        """panels: the visible panels; focused: the panel to explain first, if any"""
        super().__init__()
        self._focused = focused
        self._ascii = ascii
        # Show the help of each kind of panel only once.
        others = (panel for panel in panels if type(panel) is not type(focused))
        self._others = {panel.HELP_TITLE: panel.HELP_TEXT for panel in others}

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help") as box:
            box.border_title = "Help"
            box.border_subtitle = "esc back"
            if self._focused is not None:
                yield self._entry(self._focused.HELP_TITLE, self._focused.HELP_TEXT)
            keys = Ascii(self._keys()) if self._ascii else self._keys()
            yield Static(keys, classes="entry", id="keys")
            for title, text in [_LETTERS, *self._others.items()]:
                yield self._entry(title, text)

    def _entry(self, title: str, text: str) -> Static:
        if self._ascii:
            title, text = to_ascii(title), to_ascii(text)
        return Static(Content.assemble((title, "bold $accent"), "  ", text), classes="entry")

    def _keys(self) -> Table:
        screen = self.app.screen_stack[0]
        keys, useful = keys_now(screen), screen.keybar.wanted()
        accent = self.app.theme_variables["accent"]
        table = Table.grid(padding=(0, 2, 0, 0), expand=True)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1)
        groups = defaultdict(list, {"Useful here": []})
        for command in (command for command in (*LESSON_COMMANDS, *COMMANDS) if command.id in keys):
            groups["Useful here" if command.id in useful else command.group].append(command)
        for number, (group, commands) in enumerate(groups.items()):
            if number:
                table.add_row()
            table.add_row(Text(group, style=f"bold {accent}"))
            for command in commands:
                now = keys.get(command.id, [])
                usual = command.display is not None and now == command.keys.split(",")
                shown = map(printed_key, [command.display, *now[1:]] if usual else now)
                words = Text.assemble((command.label, accent), "  ", command.help)
                table.add_row(Text(" ".join(shown), "bold"), words)
        return table


def keys_now(screen: Screen) -> dict[str, list[str]]:
    """The keys of every command on a screen, by command id, in the order of the table."""
    keys: dict[str, list[str]] = defaultdict(list)
    for key, active in screen.active_bindings.items():
        if active.binding.id:
            keys[active.binding.id].append(key)
    return keys
