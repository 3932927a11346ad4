"""`Notices`: notifications that the dashboard shows on its own, each one once.

They report what the panels have no room for: a lost or ended source, a gap in the recording, a
refused request.
"""

from collections.abc import Callable

from minivllm.text import clean
from minivllm.tui.context import Context


class Notices:
    def __init__(self, context: Context, tell: Callable[[str], None]) -> None:
        self._context = context
        self._tell = tell
        self._trouble: str | None = None
        self._reported_loss = False

    def look(self) -> None:
        control = self._context.control
        if control is not None and (refused := control.messages()):
            self._tell(" ".join(refused))
        self._look_at_the_source()
        self._look_at_the_recorder()

    def _look_at_the_source(self) -> None:
        """Report a lost, ended or damaged source in full: the top line has too little room."""
        status = self._context.own.source.status
        if status.state != self._trouble and status.text and status.state != "indexing":
            # The user is looking at the old engine's past, so do not jump to the new engine.
            new = "The server runs another engine now; press end to follow it."
            self._tell(new if status.replaced else clean(status.text))
        self._trouble = status.state if status.text else None

    def _look_at_the_recorder(self) -> None:
        recorder = self._context.recorder
        if recorder is not None and recorder.loss is not None and not self._reported_loss:
            self._reported_loss = True
            self._tell(
                f"The recording is complete only up to step {recorder.last_step:,}:"
                f" {recorder.loss.reason}."
            )
