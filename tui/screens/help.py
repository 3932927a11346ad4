"""Help: what is on the screen, two sentences a panel, and the keys."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from minivllm.tui.widgets.panel import Panel


class HelpScreen(ModalScreen[None]):
    """Says what the visible panels show."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q", "dismiss", "Back", id="help.close", key_display="esc"),
    ]

    def __init__(self, panels: list[Panel]) -> None:
        super().__init__()
        self._panels = panels

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help") as box:
            box.border_title = "What is on the screen"
            box.border_subtitle = "esc back"
            for panel in self._panels:
                yield Static(
                    Content.assemble((panel.HELP_TITLE, "bold $accent"), "  ", panel.HELP_TEXT), classes="entry"
                )
            yield Static(
                Content.assemble(
                    ("Letters", "bold $accent"),
                    "  A sequence gets a letter when it first enters the batch and keeps it to its end. Capital and small "
                    "letters are different sequences.",
                ),
                classes="entry",
            )
            yield Static(
                Content.assemble(
                    ("Keys", "bold $accent"),
                    "  space holds the picture still while the engine runs on; t changes between dark and light; q leaves.",
                ),
                classes="entry",
            )
