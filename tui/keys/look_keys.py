"""`LookKeys`: the keys that switch screens, select things, and answer in windows and sentences."""

import time
from bisect import bisect_left
from functools import partial

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider

from minivllm.errors import EventLogError
from minivllm.events.recording.recording import Recording
from minivllm.events.recording.whole_file import whole_file
from minivllm.text import clean, fit, short_name
from minivllm.tui.answers.code import rule_of, source_of
from minivllm.tui.answers.verdict import verdict
from minivllm.tui.answers.why import why
from minivllm.tui.answers.why_tokens import how_to_explain
from minivllm.tui.context import Context
from minivllm.tui.dashboard import Dashboard
from minivllm.tui.draw.portable import Ascii, to_ascii
from minivllm.tui.draw.selection import Target, block, sequence, token
from minivllm.tui.keys.commands import COMMANDS
from minivllm.tui.keys.engine_keys import EngineKeys
from minivllm.tui.keys.race_keys import RaceKeys
from minivllm.tui.screens.dialogs import AskScreen, LeaveScreen, TextScreen, whole_number
from minivllm.tui.screens.help import HelpScreen
from minivllm.tui.widgets.choice.choice import chosen_sequence
from minivllm.tui.widgets.frame.panel import Panel

_NO_FOCUS = "No panel has the focus: tab moves the focus, ↑ and ↓ select an item."
_LONGEST_NAME = 60
_SCREEN_OF = {
    "block": "blocks",
    "host": "blocks",
    "sequence": "requests",
    "step": "scheduler",
    "event": "events",
    "token": "choice",
}


class LookKeys:
    def __init__(self, app: Dashboard, engine_keys: EngineKeys, race_keys: RaceKeys) -> None:
        self._app, self._engine, self._race = app, engine_keys, race_keys
        self._context = app.context
        self.visited: list[str] = []
        """Names of the screens that `back` returns to, newest last."""
        self._asked: tuple = None, None
        """The `_question` of the last answer, and what it explains."""

    # ---- screens and panels ----

    async def screen(self, name: str) -> None:
        if name != self._app.current_mode:
            self.visited.append(self._app.current_mode)
            await self.go(name)
        if name == "choice":
            self._engine.watch_first()  # so that there is something to see

    async def tokens(self) -> None:
        """Open the Choice screen; there, stop or start explaining the sequence's tokens."""
        if self._app.current_mode != "choice":
            await self.screen("choice")
        else:
            self._engine.tokens()

    async def go(self, name: str) -> None:
        self._app.close_sentences()  # they are about what is left now
        if name == "compare":
            self._race.show()
        else:
            self._race.hide()
        await self._app.switch_mode(name)
        self._app.call_after_refresh(self._app.draw)

    async def back(self) -> None:
        """Close notifications or a maximized panel; else go to the last screen; else unselect."""
        if self._app.close_sentences():
            return
        if self._app.screen.maximized is not None:
            self.maximize()
        elif self.visited:
            await self.go(self.visited.pop())
        else:
            self._context.selection.clear()
            self._app.draw()

    def maximize(self) -> None:
        screen, focused = self._app.screen, self._app.focused
        if screen.maximized is not None:
            screen.minimize()
        elif isinstance(focused, Panel):
            screen.maximize(focused)
        else:
            self._app.tell(_NO_FOCUS)
        self._app.call_after_refresh(self._app.draw)

    # ---- the selection ----

    def cursor(self, by: int) -> None:
        focused = self._app.focused
        if self._app.screen.scroll_by(by):
            return
        if not isinstance(focused, Panel):
            self._app.tell(_NO_FOCUS)
        elif not focused.move_cursor(by):
            self._app.tell("This panel has nothing to select now: tab moves to the next one.")

    async def open(self) -> None:
        target = self._context.selection.last
        if target is None:
            self._app.tell("Nothing is selected: tab moves to a panel, ↑ and ↓ select an item.")
        else:
            await self.screen(_SCREEN_OF[target.kind])

    def confidence(self) -> None:
        """Colour the words in the slots by the model's probability of them, or stop it."""
        app, context = self._app, self._context
        context.shows_confidence = not context.shows_confidence
        if not context.shows_confidence:
            app.tell("The words in the slots have one colour again.")
        elif app.model.explanations.judged:
            app.tell(
                "Words are coloured by the model's probability of them: green from 60 %, yellow"
                " from 30 %; underlined below that, and red below 10 %. Words of unwatched"
                " sequences keep their colour."
            )
        else:
            app.tell(how_to_explain(context, app.model, context.selection.seq_id))
        app.draw()

    def word(self, by: int) -> None:
        """Walk through the explained words of the shown sequence."""
        app, selection = self._app, self._context.selection
        seq_id = chosen_sequence(app.model, selection)
        judged = app.model.explanations.judged.get(seq_id or "", ())
        positions = [token.position for token in judged if token.event_seq is not None]
        if seq_id is None or not positions:
            app.tell(how_to_explain(self._context, app.model, seq_id))
            return
        here = positions[-1] if selection.position is None else selection.position
        to = bisect_left(positions, here) + by
        if to < 0:
            app.tell(f"No earlier token of {short_name(seq_id)} is explained.")
        elif to >= len(positions):
            selection.position = None  # from here on, follow the newest word
            app.tell(f"This is the newest token of {short_name(seq_id)}.")
        else:
            selection.choose(token(seq_id, positions[to]))
        app.draw()

    # ---- answers ----

    def why(self) -> None:
        """Answer; pressed again with the same selection, close the answer."""
        if self._app.has_answer and self._question() == self._asked[0]:
            self._app.close_sentences()
        else:
            self.answer()

    def _question(self) -> tuple[str, Target | None, bool]:
        """The screen, the selection, and whether the second of two recordings has the focus."""
        is_second = getattr(self._app.focused, "id", None) == "side-b"
        return self._app.current_mode, self._context.selection.last, is_second

    def answer(self, *, again: bool = False) -> None:
        """Explain what is selected, at this moment; `again`: not what a key has selected since."""
        question, context = self._question(), self._context
        if not again or question[1] in (None, self._asked[0][1]):
            self._asked = question, self._app.dashboard_screen.asked()
        (*_, is_second), asked = self._asked
        model = context.second.view if is_second else self._app.model
        is_race, said = context.race is not None and context.behind is not None, ""
        if is_race and asked is None and context.transport.at_end:
            said = clean(verdict(context.transport.recording, context.second.recording))
        said = said or why(model, asked, is_race=is_race)
        side = "" if context.second is None else f" of {'AB'[is_second]}"
        title = f"Why? As of step {model.fold.step:,}{side} (esc closes this)"
        self._app.tell(said, title, stays=True)

    def source(self) -> None:
        focused = self._app.focused
        rule = rule_of(self._context, focused if isinstance(focused, Panel) else None)
        if rule is None:
            self._app.tell(
                "Select an event or step first: then s shows the source that emitted it."
            )
            return
        found = source_of(rule)
        by = self._app.model.header.source
        title = f"{by} decided this; the rule here: {found.title}" if by else found.title
        body = found.syntax(dark=self._app.current_theme.dark)
        if self._context.ascii:
            title, body = to_ascii(title), Ascii(body)
        self._app.push_screen(TextScreen(title, body, found.row))

    def help(self) -> None:
        screen = self._app.dashboard_screen
        panels = [panel for panel in screen.panels if panel.display] if screen else []
        focused = self._app.focused if self._app.focused in panels else None
        self._app.close_sentences()  # they would be painted over it
        self._app.push_screen(HelpScreen(panels, focused, ascii=self._context.ascii))

    def palette(self) -> None:
        self._app.push_screen(CommandPalette(placeholder="Search for commands"))

    def filter(self) -> None:
        async def apply(answer: str | None) -> None:
            if answer is not None:
                self._context.event_filter = answer
                await self.screen("events")
                self._app.draw()

        hint = (
            "A word of the kind, the request or the block, such as: evicted. Put ! before"
            " it for the events without it. Empty shows all."
        )
        self._app.push_screen(AskScreen("Show events", hint, self._context.event_filter), apply)

    def goto(self) -> None:
        async def go(answer: str | None) -> None:
            if answer:
                await self._go_to(answer)

        hint = "A step (412), a block (b9) or a request (ada: its preemption or its arrival)."
        self._app.push_screen(AskScreen("Go to", hint), go)

    async def _go_to(self, answer: str) -> None:
        transport = self._context.transport
        # A step: 412, 1,000 or "step 412".
        step = whole_number(answer.casefold().removeprefix("step").strip().replace(",", ""))
        if step is not None:
            transport.to_step(step)
            if transport.view.fold.step != step:
                first, last = transport.recording.first_step, transport.recording.last_step
                self._app.tell(
                    f"There is no step {step:,} in this recording so far (it has the steps"
                    f" {first:,} to {last:,}): this is the nearest."
                )
        elif (target := find_target(self._context, answer)) is None:
            name = fit(clean(answer), _LONGEST_NAME).rstrip()
            self._app.tell(
                f"There is no step, request or block {name} in this recording so far: write it"
                " like 412, ada or b9."
            )
        else:
            before = transport.view.fold.step
            does = transport.to_sequence(target.key) if target.kind == "sequence" else ""
            self._engine.select(target)
            await self.open()
            if transport.view.fold.step < before:
                self._app.tell(
                    f"Back from step {before:,} to where {short_name(target.key)} {does} at"
                    f" step {transport.view.fold.step:,}: end returns to the newest step."
                )
        self._app.draw()
        if self._app.has_answer:
            self.answer(again=True)

    # ---- files ----

    def picture(self) -> None:
        name = f"minivllm-step-{self._app.model.fold.step}.svg"
        try:
            self._app.save_screenshot(name, path=".")
        except OSError as error:
            self._app.tell(f"{name} cannot be written: {error.strerror}.")
        else:
            self._app.tell(f"Saved {name}.")

    def save(self) -> None:
        recording = self._context.transport.recording
        num_events = len(recording)
        try:
            self._app.tell(save_recording(recording))
        except EventLogError as error:
            self._app.tell(str(error))
        else:
            if recording is self._context.own.recording:
                self._context.num_saved = num_events

    def leave(self) -> None:
        """Leave; before requests that the user has sent are lost, offer to save them."""

        def then(saves: bool | None) -> None:
            if saves is None:
                return
            try:
                message = save_recording(self._context.own.recording) if saves else None
            except EventLogError as error:
                self._app.tell(str(error))  # and stay, because the requests would be lost
            else:
                self._context.saved = message or ""
                self._app.exit(message=message)

        if self._context.holds_unsaved:
            self._app.push_screen(LeaveScreen(), then)
        else:
            self._app.exit()

    def leave_at_once(self) -> None:
        lost = "The requests that you sent are not saved: next time, q offers to save them."
        self._app.exit(message=lost if self._context.holds_unsaved else None)


def find_target(context: Context, name: str) -> Target | None:
    """The target with this name: a block (b9), a request's first sequence, or a known sequence."""
    view = context.transport.view
    number = whole_number(name[1:]) if name[:1] == "b" else None
    if number is not None and number < len(view.fold.blocks):
        return block(number)
    if context.transport.recording.arrival(name) is not None:
        return sequence(f"{name}.0")
    known = (seq_id for seq_id in view.ledger.sequences if name in (seq_id, short_name(seq_id)))
    return next(map(sequence, known), None)


def save_recording(recording: Recording) -> str:
    """Save the recording and its Perfetto trace into the current folder; return a sentence.

    Raises `EventLogError` if the recording cannot be read, or its file cannot be written.
    """
    name = f"minivllm-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        recording.save(f"{name}.jsonl")
        with whole_file(f"{name}.perfetto.json") as file:
            # late: a dashboard that exports nothing starts 15 ms earlier
            from minivllm.events.perfetto import export_perfetto

            export_perfetto(f"{name}.jsonl", file)
    except OSError as error:
        raise EventLogError(f"{error.filename} cannot be written: {error.strerror}.") from error
    return f"Saved {name}.jsonl and {name}.perfetto.json (open it in ui.perfetto.dev)."


class CommandList(Provider):
    """The command palette (ctrl+p): search for a command by name or help."""

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in COMMANDS:
            name = f"{command.label} ({command.display or command.keys.split(',')[0]})"
            name = to_ascii(name) if self.app.context.ascii else name
            run = partial(self.app.action_command, command.id)
            if not query:
                yield DiscoveryHit(name, run, help=command.help)
            elif (score := max(matcher.match(name), matcher.match(command.help))) > 0:
                yield Hit(score, matcher.highlight(name), run, help=command.help)

    async def discover(self) -> Hits:
        async for hit in self.search(""):
            yield hit
