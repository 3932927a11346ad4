"""The app's keys that reach the engine: methods of `DashboardApp`.

Each one says in a sentence why it cannot do what it is asked. What a person adds happens at the live end, so a picture that
stands in the past goes there.
"""

from itertools import takewhile

from minivllm.events.state import FinishedSequence
from minivllm.tui.actions import whole_number
from minivllm.tui.control import ASKED_HERE, EngineControl, Question
from minivllm.tui.draw.text import plural, short_name
from minivllm.tui.screens.dialogs import AskScreen, QuestionScreen

_NO_CONTROL = "This engine is not in this process, so it can only be watched."


class EngineActions:
    """Methods of `DashboardApp`."""

    _records_mass = False
    _last_told: FinishedSequence | None = None
    """The last answer that was looked at by `_tell_cut_answers`."""
    _told_cut: frozenset[str] = frozenset()
    """The sequences whose cut was reported: whoever comes back from the past passes their ends again."""

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

            def ask(question: Question | None) -> None:
                if question is not None:
                    self._to_live()
                    control.add_request(*question)

            self.push_screen(QuestionScreen(), ask)

    def action_engine_burst(self) -> None:
        """Four requests that begin alike."""
        if control := self._control():
            self._to_live()
            control.add_burst()

    def _to_live(self) -> None:
        """What a person adds runs at the live end, so the picture goes there, and says so if it was elsewhere."""
        transport = self.context.transport
        if transport.state != "live":
            step = self.model.fold.step
            transport.to_live()
            self.tell(f"The picture was at step {step:,}. It is live again now, where the engine takes this.")
            self._moved()

    def _tell_cut_answers(self) -> None:
        """An answer to this person that ended at its limit was not at its end."""
        newest, told = self.model.fold.history, self._last_told
        self._last_told = newest[-1] if newest else None
        if self.context.control is None or self.context.transport.state != "live":
            return
        for done in takewhile(lambda done: done is not told, reversed(newest)):
            life = self.model.lives.by_sequence.get(done.seq_id)
            is_ours = done.seq_id.startswith(ASKED_HERE) and done.seq_id not in self._told_cut
            if done.reason == "length" and life is not None and is_ours:
                self._told_cut |= {done.seq_id}
                self.tell(
                    f"{short_name(done.seq_id)} was cut at {plural(life.num_tokens, 'token')}, its max_tokens or the end of "
                    "the context: a asks with a larger one."
                )

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
                if (number := whole_number(value.strip())) is None:
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
