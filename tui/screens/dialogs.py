"""Small windows over a screen: one that asks for a line of text, one that shows text."""

from typing import ClassVar

from rich.console import RenderableType
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

_ROWS_ABOVE = 6
"""Shown above the row that a text begins near."""


class AskScreen(ModalScreen[str | None]):
    """Asks for one line; the result is None if it was closed, and empty if nothing was entered."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Back", id="ask.close")]

    def __init__(self, title: str, hint: str, value: str = "") -> None:
        super().__init__()
        self._title, self._hint, self._value = title, hint, value

    def compose(self) -> ComposeResult:
        with Vertical(id="ask") as box:
            box.border_title = self._title
            box.border_subtitle = "enter to go, esc back"
            yield Input(self._value, id="answer")
            yield Static(Content(self._hint), id="hint")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())


class TextScreen(ModalScreen[None]):
    """Shows something that is read and closed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Back", id="text.close")]

    def __init__(self, title: str, body: RenderableType | Content, row: int = 0) -> None:
        """`row`: which row of a long body to begin near."""
        super().__init__()
        self._title, self._body, self._row = title, body, row

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="text") as box:
            box.border_title = Content(self._title)
            box.border_subtitle = "esc back"
            yield Static(self._body)

    def on_mount(self) -> None:
        box = self.query_one(VerticalScroll)
        if self._row > _ROWS_ABOVE:
            self.call_after_refresh(box.scroll_to, y=self._row - _ROWS_ABOVE, animate=False)
