"""Small windows over a screen that ask for a line of text, or show text."""

from collections.abc import Iterable
from typing import ClassVar, Literal

from rich.console import RenderableType
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Key
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static

from minivllm.configurations import PARTS, parse_configuration
from minivllm.errors import ConfigError
from minivllm.text import clean
from minivllm.tui.control import Entry, Question

_ROWS_ABOVE = 6
_MOST_DIGITS = 18


def whole_number(text: str) -> int | None:
    """Parse a whole number of at most 18 digits; None for any other text."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


class Field(Input):
    """Obeys keys in the order of typing.

    Textual inserts a letter at once, but sends other keys to the app first, so that a backspace
    would delete a letter typed after it.
    """

    async def on_key(self, event: Key) -> None:
        for binding in self._bindings.key_to_bindings.get(event.key, ()):
            event.prevent_default().stop()
            await self.app.run_action(binding.action, self)


class AskScreen(ModalScreen[str | None]):
    # Tab with priority: otherwise keys typed right after it would reach the field before it.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Back", id="ask.close"),
        Binding("tab", "app.focus_next", show=False, priority=True),
        Binding("shift+tab", "app.focus_previous", show=False, priority=True),
    ]

    def __init__(self, title: str, hint: str, value: str = "") -> None:
        super().__init__()
        self._title, self._hint, self._value = title, hint, value

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="ask", can_focus=False) as box:
            box.border_title = self._title
            box.border_subtitle = "enter confirms, esc goes back"
            yield from self.fields()
            yield Static(Content(self._hint), id="hint")

    def fields(self) -> Iterable[Widget]:
        yield Field(self._value, id="answer")

    def on_input_submitted(self) -> None:
        self.enter()

    def on_input_changed(self) -> None:
        """Show the hint again in place of what was wrong."""
        self.query_one("#hint", Static).update(Content(self._hint))

    def enter(self) -> None:
        """Override this, not the handler: Textual would also call the base class's handler."""
        self.dismiss(self.query_one("#answer", Input).value.strip())

    def refuse(self, sentence: str) -> None:
        """Stay open, and say in place of the hint what is wrong."""
        self.query_one("#hint", Static).update(Content(clean(sentence)))


class QuestionScreen(AskScreen):
    def __init__(self) -> None:
        super().__init__(
            "Ask the model",
            "A user message. tab moves to the numbers: max_tokens limits the length of an"
            " answer; temperature 0 always takes the most likely token; n answers share"
            " the prompt's blocks.",
        )

    def fields(self) -> Iterable[Widget]:
        yield from super().fields()
        usual = Question("")
        with Horizontal(id="numbers"):
            for name, (kind, _) in _NUMBERS.items():
                yield Static(f"{name} ")
                number = f"{getattr(usual, name):g}"
                yield Field(number, id=name, type=kind, max_length=6, select_on_focus=True)

    def enter(self) -> None:
        prompt = self.query_one("#answer", Input).value.strip()
        try:
            numbers = {
                name: read(self.query_one(f"#{name}", Input).value)
                for name, (_, read) in _NUMBERS.items()
            }
        except ValueError:
            self.refuse("max_tokens and n are whole numbers, temperature is a number.")
        else:
            self.dismiss(Question(prompt, **numbers) if prompt else None)


_NUMBERS: dict[str, tuple[Literal["integer", "number"], type]] = {
    "max_tokens": ("integer", int), "temperature": ("number", float), "n": ("integer", int),
}  # fmt: skip


_RACES: tuple[tuple[str, Entry], ...] = (
    ("Do continuous batches and paged memory help?", Entry()),
    ("Would twice the blocks help?", Entry("paged", "paged+blocks-x2")),
    ("Would twice the slots help?", Entry("paged", "paged+slots-x2")),
    ("One request after another, or many at once?", Entry("sequential", "continuous")),
    ("A long prompt in one step, or in chunks?", Entry("unchunked", "chunked")),
    ("Does it help to guess words from the text so far?", Entry("plain", "ngram")),
)

_PARTS = {part: options for part, options in PARTS.items() if part != "draft_model"}
"""The model does not run in a race, so nor does a draft model."""


class RaceScreen(AskScreen):
    """Asks for the configurations of both sides, or for the question that a race answers."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "question(1)", priority=True),
        Binding("up", "question(-1)", priority=True),
    ]

    def __init__(self, entry: Entry) -> None:
        self._second = entry.b
        self._at = next((at for at, (_, ready) in enumerate(_RACES) if ready == entry), -1)
        super().__init__("Serve this run's requests with A and B", self._questions(), entry.a)

    def _questions(self) -> str:
        rows = [f"{' >'[at == self._at]} {words}\n" for at, (words, _) in enumerate(_RACES)]
        return (
            f"up and down choose a question:\n{''.join(rows)}\nOr write parts of A, then (tab) B,"
            f" joined by +: {', '.join(_PARTS)}."
        )

    def action_question(self, by: int) -> None:
        self._at = (self._at + by) % len(_RACES)
        for id, name in zip(("answer", "second"), _RACES[self._at][1], strict=True):
            self.query_one(f"#{id}", Input).value = name
        self._hint = self._questions()
        self.on_input_changed()

    def fields(self) -> Iterable[Widget]:
        for label, id, name in (("A", "answer", self._value), ("B", "second", self._second)):
            yield Horizontal(Static(label), Field(name, id=id))

    def enter(self) -> None:
        names = [self.query_one(f"#{id}", Input).value.strip() for id in ("answer", "second")]
        try:
            for name in names:
                parse_configuration(name, parts=_PARTS)
        except ConfigError as error:
            empty = "A and B need one part each: type paged, for example, or press down."
            self.refuse(str(error) if all(names) else empty)
        else:
            self.dismiss(Entry(*names))


class LeaveScreen(ModalScreen[bool | None]):
    """Asks whether to save the run: True or False; None to stay in the dashboard."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "dismiss(True)", "Save", id="leave.save"),
        Binding("q", "dismiss(False)", "Leave", id="leave.quit"),
        Binding("escape", "dismiss", "Back", id="leave.close"),
    ]

    def compose(self) -> ComposeResult:
        with Vertical(id="ask") as box:
            box.border_title = "Save this run before you leave?"
            box.border_subtitle = "esc to go back"
            yield Static("No file has the requests that you sent.\n")
            for key, action, words in (
                ("enter", "dismiss(True)", "saves a recording in this folder and leaves"),
                ("q", "dismiss(False)", "leaves without it"),
            ):
                row = f"[@click=screen.{action}][bold]{key}[/bold] {words}[/]"
                yield Static(Content.from_markup(row))


class TextScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "Back", id="text.close")
    ]

    def __init__(self, title: str, body: RenderableType | Content, row: int = 0) -> None:
        """row: the row to scroll to"""
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
