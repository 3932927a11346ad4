"""The keys that open a window or answer a question, such as why, go to and help."""

from typing import TYPE_CHECKING

from rich.console import RenderableType
from textual.command import CommandPalette

from minivllm.errors import EventLogError
from minivllm.text import clean, fit, short_name
from minivllm.tui.answers.code import rule_of, source_of
from minivllm.tui.answers.why import why
from minivllm.tui.context import Context
from minivllm.tui.draw.portable import Ascii, to_ascii
from minivllm.tui.draw.selection import Target, block, sequence
from minivllm.tui.keys.files import save_recording
from minivllm.tui.screens.dialogs import AskScreen, LeaveScreen, TextScreen, whole_number
from minivllm.tui.screens.help import HelpScreen
from minivllm.tui.widgets.frame.panel import Panel

if TYPE_CHECKING:
    from minivllm.tui.app import DashboardApp

_LONGEST_NAME = 60


class Windows:
    def __init__(self, app: "DashboardApp") -> None:
        self._app = app

    @property
    def _context(self) -> Context:
        return self._app.context

    @property
    def _focused(self) -> Panel | None:
        return self._app.focused if isinstance(self._app.focused, Panel) else None

    def why(self) -> None:
        model = self._app.model
        title = f"Why? As of step {model.fold.step:,}; esc closes this"
        self._app.tell(why(model, self._context.selection), title, stays=True)

    def source(self) -> None:
        rule = rule_of(self._context, self._focused)
        if rule is None:
            self._app.tell(
                "Select an event or step first: then s shows the source that emitted it."
            )
            return
        found = source_of(rule)
        self._show_text(found.title, found.syntax(dark=self._app.current_theme.dark), found.row)

    def _show_text(self, title: str, body: RenderableType, row: int = 0) -> None:
        if self._context.ascii:
            title, body = to_ascii(title), Ascii(body)
        self._app.push_screen(TextScreen(title, body, row))

    def help(self) -> None:
        screen = self._app.dashboard_screen
        panels = [panel for panel in screen.panels() if panel.display] if screen else []
        self._app.push_screen(HelpScreen(panels, self._focused, ascii=self._context.ascii))

    def palette(self) -> None:
        self._app.push_screen(CommandPalette(placeholder="Search for commands"))

    def filter(self) -> None:
        async def apply(answer: str | None) -> None:
            if answer is None:
                return
            self._context.event_filter = answer
            await self._app.look_keys.screen("events")
            self._app.draw()

        hint = (
            "A word of the kind, the request or the block, such as: evicted. Put ! before"
            " it for the events without it. Empty shows all."
        )
        self._app.push_screen(AskScreen("Show events", hint, self._context.event_filter), apply)

    def save(self) -> None:
        context = self._context
        recording, num_events = context.transport.recording, len(context.transport.recording)
        try:
            self._app.tell(save_recording(recording))
        except EventLogError as error:
            self._app.tell(str(error))
        else:
            if recording is context.own.recording:
                context.num_saved = num_events

    def leave(self) -> None:
        """Leave; before requests that the user has sent are lost, offer to save them."""
        if self._context.holds_unsaved:
            self._app.push_screen(LeaveScreen(), self._leave)
        else:
            self._app.exit()

    def _leave(self, saves: bool | None) -> None:
        if saves is None:
            return
        try:
            message = save_recording(self._context.own.recording) if saves else None
        except EventLogError as error:
            self._app.tell(str(error))  # and stay, because the requests would be lost
        else:
            self._app.exit(message=message)

    def leave_at_once(self) -> None:
        lost = "The requests that you sent are not saved: next time, q offers to save them."
        self._app.exit(message=lost if self._context.holds_unsaved else None)

    def goto(self) -> None:
        async def go(answer: str | None) -> None:
            if answer:
                await self._go_to(answer)

        hint = "A step (412), a request by its name (ada), or a block (b9)."
        self._app.push_screen(AskScreen("Go to", hint), go)

    async def _go_to(self, answer: str) -> None:
        transport = self._context.transport
        if (step := _step(answer)) is not None:
            transport.to_step(step)
            if transport.view.fold.step != step:
                last = (
                    f"it has the steps {transport.recording.first_step:,} to"
                    f" {transport.recording.last_step:,}"
                )
                self._app.tell(
                    f"There is no step {step:,} in this recording so far ({last}): this is"
                    " the nearest."
                )
        elif (target := find_target(self._context, answer)) is None:
            self._app.tell(
                f"There is no step, request or block {_short(answer)} in this recording so"
                " far: write it like 412, ada or b9."
            )
        else:
            if target.kind == "sequence":
                # A sample or beam does not arrive: for it, the picture stays at this moment.
                transport.to_request(target.key.removesuffix(".0"))
            self._context.selection.choose(target)
            self._app.engine_keys.watch_selected()
            await self._app.look_keys.open()
        self._app.draw()


def find_target(context: Context, name: str) -> Target | None:
    """The target with this name: a block (b9), a request's first sequence, or a known sequence."""
    view = context.transport.view
    number = whole_number(name[1:]) if name[:1] == "b" else None
    if number is not None and number < len(view.fold.blocks):
        return block(number)
    if context.transport.recording.arrival(name) is not None:
        return sequence(f"{name}.0")
    return next(
        (
            sequence(seq_id)
            for seq_id in view.ledger.sequences
            if name in (seq_id, short_name(seq_id))
        ),
        None,
    )


def _step(text: str) -> int | None:
    """Parse a step: 412, 1,000 or "step 412"."""
    return whole_number(text.casefold().removeprefix("step").strip().replace(",", ""))


def _short(text: str) -> str:
    return fit(clean(text), _LONGEST_NAME) if len(text) > _LONGEST_NAME else clean(text)
