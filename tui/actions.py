"""The app's actions that open a window, say something, or steer the engine.

Split from `app` for size alone: these are methods of `DashboardApp`. Each one says in a sentence what it cannot do and
why, instead of doing nothing.
"""

import time

from rich.console import RenderableType
from rich.text import Text
from textual.command import CommandPalette

from minivllm.errors import EventLogError
from minivllm.tui.ascii import Ascii, to_ascii
from minivllm.tui.code import rule_of, source_of
from minivllm.tui.control import EngineControl
from minivllm.tui.diff import difference
from minivllm.tui.screens.dialogs import AskScreen, TextScreen
from minivllm.tui.screens.help import HelpScreen
from minivllm.tui.selection import Target, block, sequence
from minivllm.tui.text import clean, fit
from minivllm.tui.why import why
from minivllm.tui.widgets.panel import Panel

NO_FOCUS = "No panel has the focus: tab goes to one, ↑ and ↓ choose in it."
_NO_CONTROL = "This engine is not in this process, so it can only be watched."


class Actions:
    """Methods of `DashboardApp`."""

    _records_mass = False
    _told_loss = False

    # ---- sentences ----

    def tell(self, sentence: str, title: str = "") -> None:
        """Say something that is not part of the picture."""
        self.notify(
            to_ascii(sentence) if self.context.ascii else sentence, title=title, markup=False, timeout=_SECONDS_TO_READ
        )

    def on_notify(self) -> None:
        """Before Textual takes in a new sentence: it takes the place of the last one, so that little is hidden."""
        self.clear_notifications()

    def _tell_trouble(self) -> None:
        """The source's own sentence when it is lost, ends or is damaged, once: the top line has no room for all of it."""
        status = self.context.transport.source.status
        if status.state != self._trouble and status.text and status.state != "indexing":
            self.tell(clean(status.text))
        self._trouble = status.state if status.text else None
        recorder = self.context.recorder
        if recorder is not None and recorder.loss is not None and not self._told_loss:
            self._told_loss = True
            self.tell(f"The recording is whole only up to step {recorder.last_step:,}: {recorder.loss.reason}.")

    # ---- questions ----

    def action_why(self) -> None:
        """Say in one sentence why the chosen thing is as it is."""
        self.tell(why(self.model, self.context.selection), title="Why?")

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
                self.context.transport.to_request(answer)  # a sample or beam is shown where it was named
            self.context.selection.choose(target)
            await self.action_open()
        self._moved()

    def named(self, name: str) -> Target | None:
        """The block (b9), the first sequence of the request, or the sequence on the screen that is called so, if any."""
        number = _number(name[1:]) if name[:1] == "b" else None
        if number is not None and number < len(self.model.fold.blocks):
            return block(number)
        if self.context.transport.recording.arrival(name) is not None:
            return sequence(f"{name}.0")
        return sequence(name) if name in self.model.lives.by_sequence else None

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
        from minivllm.events.perfetto import export_perfetto
        from minivllm.events.whole_file import whole_file

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

    # ---- the engine ----

    def _control(self) -> EngineControl | None:
        if self.context.control is None:
            self.tell(_NO_CONTROL)
        return self.context.control

    def action_engine_pause(self) -> None:
        """Pause the engine itself, or let it go on."""
        if control := self._control():
            control.resume() if control.state().paused else control.pause()

    def action_engine_step(self) -> None:
        """Let the engine take one step and stand still."""
        if control := self._control():
            self.context.transport.to_live()
            control.step()

    def action_engine_phase(self) -> None:
        """Let the engine run one phase of a step and stand still."""
        if control := self._control():
            self.context.transport.to_live()
            control.step_phase()

    def action_engine_add(self) -> None:
        """Ask the model something."""
        if control := self._control():
            self.push_screen(
                AskScreen("Ask the model", "One message of a user; the answer comes into the batch."),
                lambda answer: answer and control.add_request(answer),
            )

    def action_engine_burst(self) -> None:
        """Four requests that begin alike."""
        if control := self._control():
            control.add_burst()

    def action_engine_abort(self) -> None:
        """End the chosen request."""
        if control := self._control():
            sequence = self.model.fold.sequences.get(self.context.selection.seq_id or "")
            if sequence is None:
                self.tell("Choose a running or waiting request first (tab to a panel, then ↑ and ↓).")
            else:
                control.abort(sequence.request_id)

    def action_engine_option(self) -> None:
        """Change the token budget or the number of slots."""
        if control := self._control():

            def change(answer: str | None) -> None:
                if not answer:
                    return
                name, _, value = answer.replace("=", " ").partition(" ")
                if (number := _number(value.strip())) is None:
                    self.tell("Write a name and a whole number, as in: max_num_seqs 2.")
                else:
                    control.set_option(name, number)

            self.push_screen(
                AskScreen("Change an option", "max_num_batched_tokens N (the token budget) or max_num_seqs N (slots)."),
                change,
            )

    def action_engine_mass(self) -> None:
        """Record how much attention falls on each block, or stop."""
        if control := self._control():
            self._records_mass = not self._records_mass
            control.record_attention_mass(self._records_mass)
            self.tell(
                "Attention on each block is recorded from the next step on."
                if self._records_mass
                else "No longer recorded."
            )

    def action_engine_xray(self) -> None:
        """Record the kernel's programs at the chosen sequence's next token."""
        if control := self._control():
            seq_id = self.context.selection.seq_id
            if seq_id not in self.model.fold.running:
                self.tell("Choose a running sequence first (tab to the slots, then ↑ and ↓).")
            else:
                control.trace_kernel(seq_id)
                self.tell(
                    "Its next token is traced: it takes the engine some seconds, then it is on the Blocks screen (2)."
                )


def _number(text: str) -> int | None:
    """What a person wrote, if it is a whole number that anything could have."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _step(text: str) -> int | None:
    """The step that is meant by 412, 1,000 or "step 412"."""
    return _number(text.casefold().removeprefix("step").strip().replace(",", ""))


def _short(text: str) -> str:
    """What a person wrote, to be said again."""
    return fit(clean(text), _LONGEST_NAME) if len(text) > _LONGEST_NAME else clean(text)


_SECONDS_TO_READ = 5
_MOST_DIGITS = 18
_LONGEST_NAME = 60
