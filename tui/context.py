"""`Context`: what every panel may look at beside the model, in one object that the app owns.

The model says what was so at the moment on the screen. The rest is here: where in time that is,
what a person has chosen, whether the engine can be steered, and how to draw. Panels read it and
change only the selection.
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
    """What came of a run, and until when that is all."""

    lines: list[str]
    step: int | None

    def holds(self, newest: DashboardModel) -> bool:
        """Whether nothing was done or asked since."""
        return self.step is None or (self.step == newest.fold.step and not newest.fold.requests)


@dataclass(slots=True)
class Context:
    """One dashboard's surroundings."""

    transport: Transport
    control: EngineControl | None = None
    """None where the engine is elsewhere: attached, or a recording."""
    second: Transport | None = None
    """Another recording, which is kept at the same step."""
    recorder: LogWriter | None = None
    """Writes this run into a file, if one was asked for. Only its `loss` is read here."""
    lesson: LessonControl | None = None
    """The lesson under way, if this is one."""
    selection: Selection = field(default_factory=Selection)
    ascii: bool = False
    """Draw with the 95 characters that every terminal has."""
    watch: str = ""
    """What this run was made to show."""
    finished: list[str] | None = None
    """What came of the run, once it is over."""
    event_filter: str = ""
    """For the Events screen: a word that events must contain; after `!`, that they must not."""
