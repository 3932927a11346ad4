"""The app's actions that open a window or say something.

Split from `app` for size alone: these are methods of `DashboardApp`. Each one says in a sentence what it cannot do and
why, instead of doing nothing.
"""

import time

from rich.console import RenderableType
from rich.text import Text
from textual.command import CommandPalette

from minivllm.errors import EventLogError
from minivllm.tui.answers.code import rule_of, source_of
from minivllm.tui.answers.diff import difference
from minivllm.tui.answers.why import why
from minivllm.tui.draw.ascii import Ascii, to_ascii
from minivllm.tui.draw.selection import Target, block, sequence
from minivllm.tui.draw.text import clean, fit, short_name
from minivllm.tui.screens.dialogs import AskScreen, TextScreen
from minivllm.tui.screens.help import HelpScreen
from minivllm.tui.widgets.frame.panel import Panel

NO_FOCUS = "No panel has the focus: tab goes to one, ↑ and ↓ choose in it."


class Actions:
    """Methods of `DashboardApp`."""

    _told_loss = False

    # ---- sentences ----

    def tell(self, sentence: str, title: str = "", *, stays: bool = False) -> None:
        """Say something that is not part of the picture. `stays`: until it is closed; else esc closes it before its time."""
        if stays:
            self.clear_notifications()
        self.notify(
            to_ascii(sentence) if self.context.ascii else sentence,
            title=title,
            markup=False,
            timeout=_SECONDS_OF_A_DAY if stays else _SECONDS_TO_READ,
        )

    def on_notify(self) -> None:
        """Before Textual takes in a new sentence: it replaces the last one, so that little is hidden, but not one that stays."""
        for shown in [one for one in self._notifications if one.timeout != _SECONDS_OF_A_DAY]:
            self._unnotify(shown, refresh=False)

    def _tell_trouble(self) -> None:
        """The source's own sentence when it is lost, ends or is damaged, once: the top line has no room for all of it."""
        status = self.context.transport.source.status
        if status.state != self._trouble and status.text and status.state != "indexing":
            # Whoever looks at the past of an engine that is gone is not taken away from there.
            self.tell("Another engine runs there now: end goes to it." if status.replaced else clean(status.text))
        self._trouble = status.state if status.text else None
        recorder = self.context.recorder
        if recorder is not None and recorder.loss is not None and not self._told_loss:
            self._told_loss = True
            self.tell(f"The recording is whole only up to step {recorder.last_step:,}: {recorder.loss.reason}.")

    # ---- questions ----

    def action_why(self) -> None:
        """Say in one sentence why the chosen thing is as it is."""
        title = f"Why? As of step {self.model.fold.step:,}; esc closes this"
        self.tell(why(self.model, self.context.selection), title, stays=True)

    def action_source(self) -> None:
        """Show the code that emitted the event in question."""
        rule = rule_of(self.context, self.focused if isinstance(self.focused, Panel) else None)
        if rule is None:
            self.tell("Choose an event or step to one: its source is shown then.")
            return
        found = source_of(rule)
        self._show_text(found.title, found.syntax(dark=self.theme.endswith("dark")), found.row)

    def action_diff(self) -> None:
        """Show what changed between two marks."""
        two = self.context.transport.two_marks()
        if two is None:
            self.tell("Set a mark first (m), go elsewhere, and press D again.")
            return
        title = f"From step {two[0].fold.step:,} to step {two[1].fold.step:,}"
        self._show_text(title, Text("\n".join(difference(*two))))

    def _show_text(self, title: str, body: RenderableType, row: int = 0) -> None:
        if self.context.ascii:
            title, body = to_ascii(title), Ascii(body)
        self.push_screen(TextScreen(title, body, row))

    def action_help(self) -> None:
        """What the focused panel shows, and all keys."""
        screen = self.dashboard_screen
        panels = [panel for panel in screen.panels() if panel.display] if screen else []
        focused = self.focused if isinstance(self.focused, Panel) else None
        self.push_screen(HelpScreen(panels, focused, ascii=self.context.ascii))

    def action_command_palette(self) -> None:
        """All commands, to be found by name."""
        if not CommandPalette.is_open(self):
            self.push_screen(CommandPalette(placeholder="Search for commands", id="--command-palette"))

    def action_goto(self) -> None:
        """To a step, a request or a block."""
        hint = "A step (412), a request by its name (ada), or a block (b9)."

        async def go(answer: str | None) -> None:
            if answer:
                await self._goto(answer)

        self.push_screen(AskScreen("Go to", hint), go)

    async def _goto(self, answer: str) -> None:
        if (step := _step(answer)) is not None:
            transport = self.context.transport
            transport.to_step(step)
            if transport.view.fold.step != step:
                last = f"they are {transport.recording.first_step:,} to {transport.recording.last_step:,}"
                self.tell(f"There is no step {step:,} in this recording so far ({last}): this is the nearest.")
        elif (target := self.named(answer)) is None:
            self.tell(
                f"There is no step, request or block called {_short(answer)} in this recording so far: write 412, ada or b9."
            )
        else:
            if target.kind == "sequence":
                # A sample or beam has no arrival: it is shown where it was named.
                self.context.transport.to_request(target.key.removesuffix(".0"))
            self.context.selection.choose(target)
            await self.action_open()
        self._moved()

    def named(self, name: str) -> Target | None:
        """The block (b9), the first sequence of the request, or the sequence on the screen that is called so, if any."""
        number = whole_number(name[1:]) if name[:1] == "b" else None
        if number is not None and number < len(self.model.fold.blocks):
            return block(number)
        if self.context.transport.recording.arrival(name) is not None:
            return sequence(f"{name}.0")
        return next((sequence(one) for one in self.model.lives.by_sequence if name in (one, short_name(one))), None)

    def action_filter(self) -> None:
        """Show only events that contain a word."""

        async def apply(answer: str | None) -> None:
            if answer is None:
                return
            self.context.event_filter = answer
            await self.action_screen("events")
            self.draw()

        hint = "A word of the kind, the request or the block, as in: evicted. With ! before it, those that do not. Empty: all."
        self.push_screen(AskScreen("Show events", hint, self.context.event_filter), apply)

    # ---- files ----

    def action_save_screenshot(self) -> None:
        """Save the screen as an SVG picture."""
        name = f"minivllm-step-{self.model.fold.step}.svg"
        try:
            self.save_screenshot(name, path=".")
        except OSError as error:
            self.tell(f"{name} cannot be written: {error.strerror}.")
        else:
            self.tell(f"Saved {name}.")

    def action_export(self) -> None:
        """Save the recording, and a trace of it for Perfetto."""
        from minivllm.events.perfetto.export import export_perfetto
        from minivllm.events.recording.whole_file import whole_file

        name = f"minivllm-{time.strftime('%Y%m%d-%H%M%S')}"
        try:
            self.context.transport.recording.save(f"{name}.jsonl")
            with whole_file(f"{name}.perfetto.json") as file:
                export_perfetto(f"{name}.jsonl", file)
        except OSError as error:
            self.tell(f"{error.filename} cannot be written: {error.strerror}.")
            return
        except EventLogError as error:
            self.tell(str(error))
            return
        self.tell(f"Saved {name}.jsonl and {name}.perfetto.json (open it in ui.perfetto.dev).")


def whole_number(text: str) -> int | None:
    """What a person wrote, if it is a whole number that anything could have."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _step(text: str) -> int | None:
    """The step that is meant by 412, 1,000 or "step 412"."""
    return whole_number(text.casefold().removeprefix("step").strip().replace(",", ""))


def _short(text: str) -> str:
    """What a person wrote, to be said again."""
    return fit(clean(text), _LONGEST_NAME) if len(text) > _LONGEST_NAME else clean(text)


_SECONDS_TO_READ = 5
_SECONDS_OF_A_DAY = 86_400
_MOST_DIGITS = 18
_LONGEST_NAME = 60
