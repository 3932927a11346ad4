"""`Notices`: notifications that the dashboard shows on its own, each one once.

They report what the panels have no room for: a lost or ended source, a gap in the recording, a
refused request, a truncated answer.
"""

from collections.abc import Callable
from itertools import takewhile

from minivllm.events.state import FinishedSequence
from minivllm.text import clean, plural, short_name
from minivllm.tui.context import Context
from minivllm.tui.control import ASKED_HERE


class Notices:
    def __init__(self, context: Context, tell: Callable[[str], None]) -> None:
        self._context = context
        self._tell = tell
        self._trouble: str | None = None
        self._reported_loss = False
        self._newest: FinishedSequence | None = None
        """The newest finished sequence that `_look_for_cut_answers` has seen."""
        self._cut: frozenset[str] = frozenset()
        """Truncated sequences already reported: after a rewind, the same ends are seen again."""

    def look(self) -> None:
        control = self._context.control
        if control is not None and (refused := control.messages()):
            self._tell(" ".join(refused))
        self._look_at_the_source()
        self._look_at_the_recorder()
        self._look_for_cut_answers()

    def _look_at_the_source(self) -> None:
        """Report a lost, ended or damaged source in full: the top line has too little room."""
        status = self._context.own.source.status
        if status.state != self._trouble and status.text and status.state != "indexing":
            # The user is looking at the old engine's past, so do not jump to the new engine.
            self._tell(
                "The server runs another engine now; press end to follow it."
                if status.replaced
                else clean(status.text)
            )
        self._trouble = status.state if status.text else None

    def _look_at_the_recorder(self) -> None:
        recorder = self._context.recorder
        if recorder is not None and recorder.loss is not None and not self._reported_loss:
            self._reported_loss = True
            self._tell(
                f"The recording is complete only up to step {recorder.last_step:,}:"
                f" {recorder.loss.reason}."
            )

    def _look_for_cut_answers(self) -> None:
        """Report a request of this user whose answer ended at a token limit."""
        view = self._context.own.view
        newest, seen = view.fold.history, self._newest
        self._newest = newest[-1] if newest else None
        if self._context.control is None or self._context.own.state != "live":
            return
        for done in takewhile(lambda done: done is not seen, reversed(newest)):
            record = view.ledger.sequences.get(done.seq_id)
            is_ours = done.seq_id.startswith(ASKED_HERE) and done.seq_id not in self._cut
            if done.reason == "length" and record is not None and is_ours:
                self._cut |= {done.seq_id}
                self._tell(
                    f"{short_name(done.seq_id)} was cut at"
                    f" {plural(record.num_tokens, 'token')}, by max_tokens or the end of the"
                    " context; press a to ask with a larger max_tokens."
                )
