"""The keys that reach the engine: `EngineKeys` asks its control, and says why where that is not
possible.
"""

from collections.abc import Callable

from textual.screen import Screen

from minivllm.tui.context import Context
from minivllm.tui.control import EngineControl, Question
from minivllm.tui.keys.time_keys import TimeKeys
from minivllm.tui.screens.dialogs import AskScreen, QuestionScreen, whole_number


class EngineKeys:
    """Pause, step and feed the engine in this process. Without one, each key says that there is
    none.
    """

    def __init__(
        self,
        context: Context,
        tell: Callable[[str], None],
        time_keys: TimeKeys,
        open_window: Callable[[Screen, Callable], object],
    ) -> None:
        """`open_window`: shows a screen that asks, and calls the function with the answer."""
        self._context = context
        self._tell, self._time_keys, self._open_window = tell, time_keys, open_window
        self._records_mass = False

    def _control(self) -> EngineControl | None:
        if self._context.control is None:
            self._tell("This engine is not in this process, so it can only be watched.")
        return self._context.control

    def pause(self) -> None:
        """Pause the engine itself, or let it go on."""
        if control := self._control():
            control.resume() if control.state().paused else control.pause()

    def step(self) -> None:
        """Let the engine take one step and stop."""
        if control := self._control():
            self._context.transport.to_live()
            control.step()

    def phase(self) -> None:
        """Let the engine run one phase of a step and stop."""
        if control := self._control():
            self._context.transport.to_live()
            control.step_phase()

    def add(self) -> None:
        """Ask the model something."""
        if control := self._control():

            def ask(question: Question | None) -> None:
                if question is not None:
                    self._time_keys.leave_the_past()
                    control.add_request(*question)

            self._open_window(QuestionScreen(), ask)

    def burst(self) -> None:
        """Four requests that begin alike."""
        if control := self._control():
            self._time_keys.leave_the_past()
            control.add_burst()

    def abort(self) -> None:
        """End the chosen request."""
        if control := self._control():
            seq_id = self._context.selection.seq_id
            sequence = self._context.transport.view.fold.sequences.get(seq_id or "")
            if sequence is None:
                self._tell(
                    "Choose a running or waiting request first (tab to a panel, then ↑ and ↓)."
                )
            else:
                control.abort(sequence.request_id)

    def option(self) -> None:
        """Change the token budget or the number of slots."""
        if control := self._control():

            def change(answer: str | None) -> None:
                if not answer:
                    return
                name, _, value = answer.replace("=", " ").partition(" ")
                if (number := whole_number(value.strip())) is None:
                    self._tell("Write a name and a whole number, as in: max_num_seqs 2.")
                else:
                    control.set_option(name, number)

            hint = "max_num_batched_tokens N (the token budget) or max_num_seqs N (slots)."
            self._open_window(AskScreen("Change an option", hint), change)

    def mass(self) -> None:
        """Record how much attention falls on each block, or stop."""
        if control := self._control():
            self._records_mass = not self._records_mass
            control.record_attention_mass(self._records_mass)
            self._tell(
                "Attention on each block is recorded from the next step on."
                if self._records_mass
                else "No longer recorded."
            )

    def xray(self) -> None:
        """Record the kernel's programs at the chosen sequence's next token."""
        if control := self._control():
            seq_id = self._context.selection.seq_id
            if seq_id not in self._context.transport.view.fold.running:
                self._tell("Choose a running sequence first (tab to the slots, then ↑ and ↓).")
            else:
                control.trace_kernel(seq_id)
                self._tell(
                    "Its next token is traced: it takes the engine some seconds, then it is on the"
                    " Blocks screen (2)."
                )
