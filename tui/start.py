"""The start of an engine while the dashboard is open: its parts, and at its end a source to draw.

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


class StartPart(NamedTuple):
    """One part of a start, such as the weights."""

    name: str
    text: str = ""
    """What is being done, or the result; empty before the part begins."""
    done: float = 0.0
    """The fraction that is done, from 0 to 1."""
    seconds: float = 0.0
    """Time that the part has taken so far."""


class Started(NamedTuple):
    """What the dashboard gets from a start: the fields of its `Context` that needed an engine."""

    source: EventSource[DashboardModel]
    control: EngineControl | None = None
    recorder: LogWriter | None = None
    lesson: LessonControl | None = None


class Start(Protocol):
    started: Future[Started]
    """Done at the end of the start. An exception ends the dashboard, and its caller raises it."""

    def begin(self) -> None:
        """Called after the first frame: the import of torch often stops all other threads."""

    def parts(self) -> list[StartPart]: ...
