"""`Context`: what panels may read apart from the model, in one object that the app owns.

The model holds the engine's state at the moment on display; the context holds the position in time,
the user's selection, the engine's controls and how to draw. Panels change only the selection.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from minivllm.events.recording.log import LogWriter
from minivllm.tui.control import EngineControl
from minivllm.tui.draw.selection import Selection
from minivllm.tui.lesson import LessonControl
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.time.transport import Transport


class RunSummary(NamedTuple):
    lines: list[str]
    step: int | None

    def holds(self, newest: DashboardModel) -> bool:
        """Whether the engine has had no work since."""
        return self.step is None or (self.step == newest.fold.step and not newest.fold.requests)


@dataclass(slots=True)
class Context:
    transport: Transport
    control: EngineControl | None = None
    """None if the engine is not in this process."""
    second: Transport | None = None
    """Another recording, kept at the same step."""
    recorder: LogWriter | None = None
    """Writes this run into a file. Only its `loss` is read here."""
    lesson: LessonControl | None = None
    selection: Selection = field(default_factory=Selection)
    ascii: bool = False
    """Draw with printable ASCII only."""
    watch: str = ""
    finished: list[str] | None = None
    """The results of the run, once it is over."""
    event_filter: str = ""
    """For the Events screen: a word that events must contain, or after `!` must not."""
