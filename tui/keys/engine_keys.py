"""`EngineKeys`: the keys that control an engine in this process. Without one, each key says so."""

from msgspec import structs

from minivllm.events.types import TokenAttention
from minivllm.text import short_name
from minivllm.tui.answers.why_tokens import how_to_explain
from minivllm.tui.control import ASKED_HERE, EngineControl, Question
from minivllm.tui.dashboard import Dashboard
from minivllm.tui.draw.selection import Target, sequence
from minivllm.tui.keys.time_keys import TimeKeys
from minivllm.tui.screens.dialogs import AskScreen, QuestionScreen, whole_number
from minivllm.tui.state.decisions import layer_and_head


class EngineKeys:
    def __init__(self, app: Dashboard, time_keys: TimeKeys) -> None:
        self._app, self._context, self._time = app, app.context, time_keys
        self._records_mass = False
        self._layer: int | None = None
        self._head: int | None = None
        self._explained: dict[str, bool] = {}
        """Sequence -> whether its tokens are explained, if the user selected it or pressed W."""
        self._arrived_before: set[str] | None = None
        """The unfinished requests when the user sent one, until that one has arrived."""
        self._asked: set[str] = set()
        """The user's requests that have no whole answer yet."""

    def _control(self) -> EngineControl | None:
        if self._context.control is None:
            is_file = self._context.own.source.status.state in ("recording", "indexing")
            what = "This is a recording" if is_file else "This engine is in another process"
            if self._context.lesson is not None:
                what = "The pages of the lesson run this engine"
            self._app.tell(f"{what}, so the dashboard can only watch it.")
        return self._context.control

    def pause(self) -> None:
        control = self._control()
        if control is not None and control.pauses_with_picture:
            self._time.toggle()
        elif control is not None:
            control.resume() if control.state().paused else control.pause()

    def _newest(self) -> EngineControl | None:
        """Go to the newest moment. None if the key runs nothing: it says why."""
        control, own = self._control(), self._context.own
        is_ahead = control is not None and control.state().paused and not own.at_end
        is_over = self._context.finished is not None
        if control is not None:
            self._time.follow_steps()
            # An idle demo may get a request of its script now.
            if is_over or not (control.pauses_with_picture or own.view.fold.requests):
                self._app.tell("There is nothing to compute: a asks the model.")
            elif is_ahead:
                self._app.tell("This is the newest moment: the same key now runs the engine.")
        return None if is_ahead or is_over else control

    def step(self) -> None:
        if control := self._newest():
            control.step()

    def phase(self) -> None:
        if control := self._newest():
            self.watch_first()  # so that the candidates are on the screen before the draw
            control.step_phase()

    def add(self) -> None:
        if control := self._control():

            def ask(question: Question | None) -> None:
                if question is not None:
                    self._time.leave_the_past()
                    self._arrived_before = set(self._context.own.recording.head.fold.requests)
                    control.add_request(*question)

            self._app.push_screen(QuestionScreen(), ask)

    def select_asked(self) -> bool:
        """Select the user's new request once it has arrived; return whether it has."""
        requests = self._context.own.recording.head.fold.requests.keys()
        for name in self._asked - requests:
            self._asked.remove(name)
            self._app.report(f"{name} has ended: press 4 to read its answer.")
        if self._arrived_before is None:
            return False
        newer = requests - self._arrived_before
        asked = next((name for name in newer if name.startswith(ASKED_HERE)), None)
        if asked is None:
            return False
        self._arrived_before = None
        self._asked.add(asked)
        self.select(sequence(f"{asked}.0"))
        return True

    def burst(self) -> None:
        if control := self._control():
            self._time.leave_the_past()
            control.add_burst()

    def abort(self) -> None:
        if control := self._control():
            seq_id = self._context.selection.seq_id
            sequence = self._context.own.view.fold.sequences.get(seq_id or "")
            if sequence is None:
                self._app.tell("Select a running or waiting request first (tab, then ↑ and ↓).")
            else:
                control.abort(sequence.request_id)

    def option(self) -> None:
        if control := self._control():

            def change(answer: str | None) -> None:
                if not answer:
                    return
                name, _, value = answer.replace("=", " ").partition(" ")
                if (number := whole_number(value.strip())) is None:
                    self._app.tell("Write a name and a whole number, such as: max_num_seqs 2.")
                else:
                    control.set_option(name, number)

            hint = "max_num_batched_tokens N (the token budget) or max_num_seqs N (slots)."
            self._app.push_screen(AskScreen("Change an option", hint), change)

    def mass(self) -> None:
        if control := self._control():
            self._records_mass = not self._records_mass
            self._layer = self._head = None
            if not self._records_mass:
                control.record_attention_mass(False)
                self._app.tell("Attention is no longer recorded.")
                return
            self.follow()
            self._app.tell(
                "From the next step on, attention is recorded: on each block, and on each word of"
                " the selected sequence. The Blocks screen (2) shows it, and the Scheduler screen (3)"
                " the experts of a model that has some."
            )

    def follow(self) -> None:
        """While attention is recorded, record the words of the selected sequence."""
        control = self._context.control
        if self._records_mass and control is not None:
            own = self._context.selection.seq_id
            control.record_attention_mass(True, own, self._layer, self._head)

    def layer(self) -> None:
        if (last := self._attention()) is not None:
            self._layer = _next(self._layer, last.num_layers)
            self._say_whose(last)

    def head(self) -> None:
        if (last := self._attention()) is not None:
            self._head = _next(self._head, last.num_heads)
            self._say_whose(last)

    def _attention(self) -> TokenAttention | None:
        if self._control() is None:
            return None
        last = self._context.own.recording.head.attention if self._records_mass else None
        if last is None:
            self._app.tell("No attention on words is recorded yet: M starts it, at the next step.")
        return last

    def _say_whose(self, last: TokenAttention) -> None:
        self.follow()
        whose = layer_and_head(structs.replace(last, layer=self._layer, head=self._head))
        self._app.tell(f"From the next step on: attention, {whose}.")

    def xray(self) -> None:
        if (control := self._control()) and (seq_id := self._select_running()):
            control.trace_kernel(seq_id)
            step = " Press → for that step." if control.state().paused else ""
            self._app.tell(
                f"The kernel is traced at the next token of {short_name(seq_id)}.{step} This takes"
                " some seconds; the trace appears on the Blocks screen (2)."
            )

    def tokens(self) -> None:
        """Stop or start explaining the sequence's tokens."""
        control, view = self._context.control, self._context.transport.view
        before = self._context.selection.seq_id
        if control is None:
            self._app.tell(how_to_explain(self._context, view, before))
        elif seq_id := self._select_running():
            on = self._explained[seq_id] = seq_id != before or not self.explains_selected
            control.explain_tokens(seq_id, on)
            now = "now explained" if on else "no longer explained"
            self._app.tell(f"The tokens of {short_name(seq_id)} are {now}.")

    def _select_running(self) -> str | None:
        """Select and return a running sequence; without one, say so.

        The selected one, or else an owner of the selected block, or else the first.
        """
        selection = self._context.selection
        running = self._context.own.recording.head.fold.running
        if not running:
            self._app.tell("Nothing runs: a asks the model.")
            return None
        block_id, view = selection.block_id, self._context.own.view
        owners = [] if block_id is None else [owner for owner, _ in view.owners(block_id)]
        nearest = (selection.seq_id, *owners)
        seq_id = next((seq_id for seq_id in nearest if seq_id in running), running[0])
        if seq_id != selection.seq_id:
            self.select(sequence(seq_id))
        return seq_id

    def select(self, target: Target) -> None:
        """Select something; a sequence is watched from now on."""
        self._context.selection.choose(target)
        if target.kind == "sequence":
            self.follow()
            self.watch_selected()

    def watch_first(self) -> None:
        """Select a running sequence if there is nothing to see of the selected one."""
        seq_id, newest = self._context.selection.seq_id, self._context.own.recording.head
        shows = seq_id in newest.fold.running or seq_id in newest.explanations.judged
        if self._context.control is not None and newest.fold.running and not shows:
            self._select_running()

    @property
    def explains_selected(self) -> bool:
        return self._explained.get(self._context.selection.seq_id or "", False)

    def watch_selected(self) -> None:
        """Explain the selected sequence's next tokens, unless the user has stopped that."""
        control, seq_id = self._context.control, self._context.selection.seq_id
        live = self._context.own.recording.head.fold.sequences
        if control is not None and seq_id in live and seq_id not in self._explained:
            self._explained[seq_id] = True
            control.explain_tokens(seq_id, True)


def _next(number: int | None, count: int) -> int | None:
    """The next layer or head; after the last one, None for the mean of all."""
    if number is None:
        return 0
    return number + 1 if number + 1 < count else None
