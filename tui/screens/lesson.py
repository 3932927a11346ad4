"""The Lesson screen: the words of a lesson beside the panels that they are about.

One panel is lit and the others are dim. All are drawn from the events of the lesson's engine up to
the page at hand, so going back is time travel. Space and enter go on, `b` goes back, and while a
question is open, what is typed is the guess.

The lesson runs its engine in a thread of its own, because a page may take seconds; meanwhile keys
only say so. Then the steps it took are played, so that they can be seen.
"""

from collections.abc import Callable, Iterable
from functools import partial
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
from minivllm.tui.time.transport import SPEEDS, STEPS_PER_SECOND, Transport
from minivllm.tui.widgets.frame.lesson_text import LessonText

_LONGEST_GUESS = 12
_SECONDS_TO_PLAY = 1.5
"""What a page's steps take to be played, however many they are."""
_COMPANIONS: dict[str, tuple[PanelName, ...]] = {
    "-low": ("slots", "blockmap"),
    "-medium": ("slots", "blockmap", "budget"),
    "-tall": ("slots", "blockmap", "budget", "waiting", "eventlog"),
}
"""What stands beside the lit panel, by the height of the terminal: where things are, and what the
step did.
"""


class LessonScreen(DashboardScreen):
    """Words on the left, panels on the right."""

    NAME = "lesson"
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
        """While a question is open, digits are the guess."""
        text = self._text
        if not self._lesson.page.waits or text.busy:
            return
        if event.key == "backspace":
            text.typed = text.typed[:-1]
        elif event.character is not None and event.character in "0123456789.":
            text.typed = (text.typed + event.character)[:_LONGEST_GUESS]
        else:
            return
        event.stop()
        text.trouble = ""
        text.show_again()

    async def action_command(self, command_id: str) -> None:
        """What the lesson's own keys do; all others are the app's."""
        await run_command(LESSON_COMMANDS, command_id, self)

    def next_page(self) -> None:
        """On to the next page, or to what comes of the guess."""
        if self._lesson.page.waits:
            self._run(partial(self._lesson.answer, self._text.typed))
        else:
            self._run(self._lesson.forward)

    def page_back(self) -> None:
        """To the page before."""
        self._run(self._lesson.back)

    # ---- the lesson goes on ----

    def _run(self, move: Callable[[], str | None]) -> None:
        """Have the lesson go on in a thread of its own."""
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
            if self.app.is_running:  # whoever has left meanwhile does not wait for it
                self.app.call_from_thread(then)

        self.run_worker(work, thread=True)

    def _moved(self, trouble: str | None) -> None:
        """The lesson has gone on, or not."""
        self._text.busy = False
        self._text.trouble = trouble or ""
        # Also a guess that is none: what is typed next is another one.
        self._text.typed = ""
        self._show_page()
        self.app.draw()

    def _show_page(self) -> None:
        """Light the page's panel, and go to its place in time."""
        before, page = self._shown, self._lesson.page
        self._shown = page
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
            # The first one is the app's own.
            transport = self.context.transport if before is None else Transport(page.stage.source)
            self._transports[page.stage] = transport
        self.context.transport = transport
        while transport.source.poll(1.0):
            pass
        if not self._lesson.at_newest:
            transport.to_position(page.position)
            return
        recording = transport.recording
        begin = (
            before.position if before is not None and before.stage is page.stage else page.position
        )
        num_steps = recording.step_of(page.position) - recording.step_of(begin)
        if num_steps <= 1:
            transport.to_live()
            return
        wanted = num_steps / (STEPS_PER_SECOND * _SECONDS_TO_PLAY)
        transport.to_position(begin)
        transport.speed = next((speed for speed in SPEEDS if speed >= max(wanted, 1.0)), SPEEDS[-1])
        transport.play()

    def _light(self, lit: PanelName | None) -> None:
        for name, panel in self._pictures.items():
            panel.set_class(name == lit, "-lit")
            panel.set_class(name != lit and lit is not None, "-dim")
        # Slots are as high as they are many: the room that they leave is the map's.
        self._pictures["blockmap"].set_class(lit == "slots", "-rest")
        self._choose_companions()

    def _choose_companions(self) -> None:
        """Show the lit panel and as many others as there is room for."""
        height = next((name for name in _COMPANIONS if self.has_class(name)), "-low")
        for name, panel in self._pictures.items():
            panel.set_class(
                not panel.has_class("-lit") and name not in _COMPANIONS[height], "-away"
            )

    def draw(self) -> None:
        self._choose_companions()
        super().draw()
