"""The dashboard's view of a lesson: pages to show, and requests to the teacher.

Only types and a protocol, so that the dashboard needs neither the engine nor the lessons.
`minivllm.lessons.teacher.lesson_player` implements it. A page has text and a position in a
recording; panels draw the events up to that position.

Call `forward` and `answer` from a separate thread: they run the engine and can take seconds.
"""

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from minivllm.tui.draw.selection import Target
from minivllm.tui.sources.source import EventSource
from minivllm.tui.state.model import DashboardModel

PanelName = Literal[
    "slots", "blockmap", "budget", "waiting", "freequeue", "eventlog", "inspector", "prefix_tree",
    "mass", "xray", "timelines", "request_detail", "step_history", "batch_order", "finished",
]  # fmt: skip
"""Panels that a lesson can highlight."""
PANEL_NAMES: tuple[PanelName, ...] = get_args(PanelName)


@dataclass(frozen=True, slots=True)
class Stage:
    """An engine that the lesson has built, as a source of events."""

    source: EventSource[DashboardModel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The text beside the picture: **this** is emphasized, `this` is a name."""

    number: int
    """Starts at 1."""
    text: str
    claims: tuple[str, ...] = ()
    """What the lesson has just checked on the engine."""
    choices: tuple[str, ...] = ()
    unit: str = ""
    """Unit of a numeric answer: a singular noun, or a sign like %."""
    asks: bool = False
    given: str | None = None
    """The user's answer; None while the question is open."""
    right: bool | None = None
    """Whether the answer was right, on the page after a question."""
    focus: PanelName | None = None
    """The panel to highlight."""
    chosen: Target | None = None
    """The block or sequence to inspect."""
    engine: str = ""
    """Name of the engine, if the lesson has several."""
    stage: Stage | None = None
    """None before the lesson has built an engine."""
    position: int = 0
    """Number of the stage's events before this page."""
    last: bool = False

    @property
    def waits(self) -> bool:
        """Whether the page is an open question, which blocks `forward`."""
        return self.asks and self.given is None


class LessonControl(Protocol):
    """A running lesson. One call at a time."""

    title: str

    @property
    def page(self) -> Page:
        """The current page."""

    @property
    def at_newest(self) -> bool:
        """Whether the current page is the newest one."""

    @property
    def score(self) -> tuple[int, int]:
        """Right first answers, and questions answered."""

    def forward(self) -> str | None:
        """Go to the next page; a new page runs the engine. Returns an error message, or None."""

    def back(self) -> str | None:
        """Go to the previous page. Returns an error message, or None."""

    def answer(self, typed: str) -> str | None:
        """Answer the open question and show the verdict. Returns an error message, or None."""
