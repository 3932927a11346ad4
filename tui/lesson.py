"""The dashboard's view of a lesson: pages to show, and requests to the teacher.

Only types and a protocol, so that the dashboard imports neither the engine nor the lessons;
implemented in `minivllm.lessons.teacher.lesson_player`.

Call `forward` and `answer` from a separate thread: they run the engine and can take seconds.
"""

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from minivllm.tui.draw.selection import Target
from minivllm.tui.sources.source import EventSource
from minivllm.tui.state.model import DashboardModel

PanelName = Literal[
    "slots", "blockmap", "hostmap", "budget", "waiting", "freequeue", "eventlog", "inspector",
    "prefix_tree", "mass", "xray", "timelines", "request_detail", "step_history", "finished",
    "choice", "branches", "flat_batch", "experts",
]  # fmt: skip
"""Panels that a lesson can highlight."""
PANEL_NAMES: tuple[PanelName, ...] = get_args(PanelName)


@dataclass(frozen=True, slots=True)
class Stage:
    """An engine of the lesson, as a source of events."""

    source: EventSource[DashboardModel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a lesson. In its text, **this** is emphasized and `this` is a name."""

    number: int
    """Starts at 1."""
    text: str
    figure: tuple[str, ...] = ()
    """Rows of a drawing below the text."""
    diagram: str = ""
    """Name of the picture that the site shows in place of `figure`; a terminal cannot."""
    claims: tuple[str, ...] = ()
    """What the lesson has just checked on the engine."""
    choices: tuple[str, ...] = ()
    unit: str = ""
    """Unit of a numeric answer: a singular noun, or a sign like %."""
    asks: bool = False
    given: str | None = None
    """The user's answer; None while the question is open."""
    right: bool | None = None
    """On the page after a question: whether the answer was right; None without an answer."""
    focus: PanelName | None = None
    chosen: Target | None = None
    """The block or sequence to inspect."""
    engine: str = ""
    """Name of the engine, if the lesson has several."""
    stage: Stage | None = None
    """The engine to draw; None before the lesson has built one."""
    position: int = 0
    """Number of events of the stage that happened before this page."""
    last: bool = False

    @property
    def waits(self) -> bool:
        """Whether the page is an open question; `forward` then refuses to go on."""
        return self.asks and self.given is None


class LessonControl(Protocol):
    """A running lesson. One call at a time."""

    title: str
    num_pages: int
    """0 if it is unknown."""

    @property
    def page(self) -> Page: ...

    @property
    def at_newest(self) -> bool: ...

    @property
    def score(self) -> tuple[int, int]:
        """(number of right first answers, number of answered questions)"""

    def forward(self) -> str | None:
        """Go to the next page, running the engine for a new page. Returns an error, or None."""

    def back(self) -> str | None:
        """Go to the previous page. Returns an error, or None."""

    def answer(self, typed: str) -> str | None:
        """Answer the open question and show the verdict. Returns an error, or None."""
