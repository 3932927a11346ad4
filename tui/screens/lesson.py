"""The Lesson screen: the text of a lesson beside the panels that it explains.

All panels draw the engine's state at the current page, so going back a page is going back in time.
The engine runs in a separate thread, because a page can take seconds. Then the new steps are played
back at a visible speed.
"""

from collections.abc import Callable, Iterable
from functools import partial
from string import ascii_letters
from typing import ClassVar

from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Key
from textual.widget import Widget

from minivllm.errors import MinivllmError
from minivllm.tui.context import Context
from minivllm.tui.keys.commands import LESSON_COMMANDS, as_bindings, run_command
from minivllm.tui.lesson import PANEL_NAMES, LessonControl, Page, PanelName, Stage
from minivllm.tui.panels import make_panel
from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.time.transport import Transport
from minivllm.tui.widgets.frame.lesson_text import LessonText

_LONGEST_GUESS = 12
_SECONDS_TO_PLAY = 1.5
"""Time to play the steps of one page."""
_COMPANIONS: dict[str, tuple[PanelName, ...]] = {
    "-low": ("slots", "blockmap"),
    "-medium": ("slots", "blockmap"),
    "-tall": ("slots", "blockmap", "waiting", "eventlog"),
}
"""Terminal height -> panels to show beside the highlighted one."""


class LessonScreen(DashboardScreen):
    NAME = "lesson"
    IS_NARRATED = False
    BINDINGS: ClassVar[list[BindingType]] = as_bindings(LESSON_COMMANDS)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._lesson: LessonControl = context.lesson
        self._transports: dict[Stage, Transport] = {}
        self._shown: Page | None = None

    def body(self) -> Iterable[Widget]:
        self._text = LessonText(self._lesson, id="lesson-text")
        self._pictures = {name: make_panel(name, id=f"lesson-{name}") for name in PANEL_NAMES}
        with Horizontal(id="lesson-body"):
            yield self._text
            with Vertical(id="lesson-pictures"):
                yield from self._pictures.values()

    def on_mount(self) -> None:
        super().on_mount()
        self._show_page()

    # ---- keys ----

    def on_key(self, event: Key) -> None:
        """While a question is open, take digits as the answer, and refuse letters.

        The letters in the bottom line remain keys.
        """
        text = self._text
        if not self._lesson.page.waits or text.busy:
            return
        trouble, shown = None, (self.bound.get(name) for name in self.keybar.wanted())
        if event.key == "backspace":
            text.typed = text.typed[:-1]
        elif event.character is not None and event.character in "0123456789.":
            text.typed = (text.typed + event.character)[:_LONGEST_GUESS]
        elif event.key in ascii_letters and all(
            key is None or key.key != event.key for key in shown
        ):
            trouble = self._lesson.answer(event.key)
        else:
            return
        event.stop()
        text.trouble = trouble or ""
        text.show_again()

    async def action_command(self, command_id: str) -> None:
        await run_command(LESSON_COMMANDS, command_id, self)

    def next_page(self) -> None:
        if self._lesson.page.last and self._lesson.at_newest:
            self.app.exit("next")  # the caller opens the next lesson
        elif self._lesson.page.waits:
            self._run(partial(self._lesson.answer, self._text.typed))
        else:
            self._run(self._lesson.forward)

    def action_guess(self, number: str) -> None:
        """A click on an answer: choose it, or give it if it is chosen."""
        text = self._text
        if not self._lesson.page.waits or text.busy:
            return
        if text.typed == number:
            self.next_page()
        else:
            text.typed, text.trouble = number, ""
            text.show_again()

    def scroll_by(self, by: int) -> bool:
        is_read = self.focused in (None, self._text)
        return super().scroll_by(by) or (is_read and self._text.scroll_rows(by))

    def page_back(self) -> None:
        self._run(self._lesson.back)

    # ---- moving through the lesson ----

    def _run(self, move: Callable[[], str | None]) -> None:
        if self._text.busy:
            return
        self._text.busy = True
        self._text.trouble = ""
        if self._shown is not None and self._shown.stage is not None:
            self.context.transport.to_position(self._shown.position)
        self._text.show_again()

        def work() -> None:
            try:
                trouble = move()
            except MinivllmError as error:
                then = partial(self.app.exit, return_code=1, message=str(error))
            else:
                then = partial(self._moved, trouble)
            if self.app.is_running:  # do not wait for an app that has exited meanwhile
                self.app.call_from_thread(then)

        self.run_worker(work, thread=True)

    def _moved(self, trouble: str | None) -> None:
        self._text.busy = False
        self._text.trouble = trouble or ""
        # Clear an invalid answer too, so that the next digits start a new answer.
        self._text.typed = ""
        self._show_page()
        self.app.draw()

    def _show_page(self) -> None:
        before, page = self._shown, self._lesson.page
        self._shown = page
        self._text.set_class(bool(page.figure), "-drawn")
        self._text.first_row = 0
        if page.stage is not None:
            self._go_to(before, page)
        if page.chosen is None:
            self.context.selection.clear()
        else:
            self.context.selection.choose(page.chosen)
        self._light(page.focus)

    def _go_to(self, before: Page | None, page: Page) -> None:
        transport = self._transports.get(page.stage)
        if transport is None:
            # The app has already made a transport for the first page's source.
            transport = self.context.transport if before is None else Transport(page.stage.source)
            self._transports[page.stage] = transport
        self.context.transport = transport
        while transport.source.poll(1.0):
            pass
        if not self._lesson.at_newest:
            transport.to_position(page.position)
            return
        recording = transport.recording
        is_same = before is not None and before.stage is page.stage
        begin = (before if is_same else page).position
        num_steps = recording.step_of(page.position) - recording.step_of(begin)
        if num_steps <= 1:
            transport.to_live()
            return
        transport.to_position(begin)
        transport.play_within(_SECONDS_TO_PLAY, num_steps)

    def _light(self, lit: PanelName | None) -> None:
        for name, panel in self._pictures.items():
            panel.set_class(name == lit, "-lit")
            panel.set_class(name != lit and lit is not None, "-dim")
        # The panel Slots has a row for each slot; give the map the remaining height.
        self._pictures["blockmap"].set_class(lit == "slots", "-rest")
        self._choose_companions()

    def _choose_companions(self) -> None:
        height = next((name for name in _COMPANIONS if self.has_class(name)), "-low")
        for name, panel in self._pictures.items():
            panel.set_class(
                not panel.has_class("-lit") and name not in _COMPANIONS[height], "-away"
            )

    def draw(self) -> None:
        self._choose_companions()
        super().draw()
