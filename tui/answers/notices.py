"""`Notices`: what the dashboard says without being asked, each thing once.

The app calls `look` in every frame. A notice is for what no panel has room for: the source is lost
or has ended, the recording on disk has a hole, the engine refused a wish, an answer was cut.
"""

from collections.abc import Callable
from itertools import takewhile

from minivllm.events.state import FinishedSequence
from minivllm.text import clean, plural, short_name
from minivllm.tui.context import Context
from minivllm.tui.control import ASKED_HERE


class Notices:
    """Compares what is so with what has been said."""

    def __init__(self, context: Context, tell: Callable[[str], None]) -> None:
        self._context = context
        self._tell = tell
        self._trouble: str | None = None
        """The state of the source that was reported."""
        self._reported_loss = False
        self._newest: FinishedSequence | None = None
        """The last answer that `_look_for_cut_answers` has seen."""
        self._cut: frozenset[str] = frozenset()
        """Sequences whose cut was reported: a picture that comes back from the past passes their
        ends again.
        """

    def look(self) -> None:
        """Say what is new."""
        control = self._context.control
        if control is not None and (refused := control.messages()):
            self._tell(" ".join(refused))
        self._look_at_the_source()
        self._look_at_the_recorder()
        self._look_for_cut_answers()

    def _look_at_the_source(self) -> None:
        """Its own sentence when it is lost, ends or is damaged: the top line has no room for all of
        it.
        """
        status = self._context.transport.source.status
        if status.state != self._trouble and status.text and status.state != "indexing":
            # Somebody who looks at the past of an engine that is gone is not taken away from there.
            self._tell(
                "Another engine runs there now: end goes to it."
                if status.replaced
                else clean(status.text)
            )
        self._trouble = status.state if status.text else None

    def _look_at_the_recorder(self) -> None:
        recorder = self._context.recorder
        if recorder is not None and recorder.loss is not None and not self._reported_loss:
            self._reported_loss = True
            self._tell(
                f"The recording is whole only up to step {recorder.last_step:,}:"
                f" {recorder.loss.reason}."
            )

    def _look_for_cut_answers(self) -> None:
        """An answer to this person that ended at a limit is not complete, and does not look so."""
        view = self._context.transport.view
        newest, seen = view.fold.history, self._newest
        self._newest = newest[-1] if newest else None
        if self._context.control is None or self._context.transport.state != "live":
            return
        for done in takewhile(lambda done: done is not seen, reversed(newest)):
            life = view.lives.by_sequence.get(done.seq_id)
            is_ours = done.seq_id.startswith(ASKED_HERE) and done.seq_id not in self._cut
            if done.reason == "length" and life is not None and is_ours:
                self._cut |= {done.seq_id}
                self._tell(
                    f"{short_name(done.seq_id)} was cut at {plural(life.num_tokens, 'token')}, its"
                    " max_tokens or the end of the context: a asks with a larger one."
                )
