"""The start of an engine while the dashboard is open: what it does, and then a source to draw.

Only types and a protocol, so that the dashboard imports neither the engine nor torch; implemented
in `minivllm.cli.starting`.
"""

from concurrent.futures import Future
from typing import NamedTuple, Protocol

from minivllm.events.recording.log import LogWriter
from minivllm.tui.control import EngineControl
from minivllm.tui.lesson import LessonControl
from minivllm.tui.sources.source import EventSource
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.tour import Tour


class Started(NamedTuple):
    """What the dashboard gets from a start: the fields of its `Context` that needed an engine."""

    source: EventSource[DashboardModel]
    control: EngineControl | None = None
    recorder: LogWriter | None = None
    lesson: LessonControl | None = None
    tour: Tour | None = None


class Start(Protocol):
    started: Future[Started]
    """Done at the end of the start. An exception ends the dashboard, and its caller raises it."""

    text: str
    """What the start is doing now, in a few words."""

    def begin(self) -> None:
        """Called after the first frame: the import of torch often stops all other threads."""
