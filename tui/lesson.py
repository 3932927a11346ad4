"""What the dashboard sees of a lesson: pages to show, and the few things that it can ask of the
teacher.

Types and a protocol alone, so that the dashboard needs neither the engine nor the lessons;
`minivllm.lessons.teacher.lesson_player` is the real one. A page holds words and a place in a
recording; the picture beside the words is drawn from the events up to that place, like any other.
`forward` and `answer` run the engine and may take seconds, so call them in a thread of their own.
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
"""The panels that a lesson can light."""
PANEL_NAMES: tuple[PanelName, ...] = get_args(PanelName)


@dataclass(frozen=True, slots=True)
class Stage:
    """An engine that the lesson has built: where its events come from."""

    source: EventSource[DashboardModel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What stands beside the picture between two keys. In its text **this** is marked, and `this`
    is a name.
    """

    number: int
    """From 1."""
    text: str
    claims: tuple[str, ...] = ()
    """What was checked on the engine just before."""
    choices: tuple[str, ...] = ()
    """Of a question with given answers."""
    unit: str = ""
    """Of a question with a number for an answer: what it counts, a noun without its s, or a sign
    like %.
    """
    asks: bool = False
    """It is a question."""
    given: str | None = None
    """What was answered; None while it is open."""
    right: bool | None = None
    """Of a verdict."""
    focus: PanelName | None = None
    """The panel to light."""
    chosen: Target | None = None
    """The block or sequence that is looked at."""
    engine: str = ""
    """Which of the lesson's engines is shown, where it has several."""
    stage: Stage | None = None
    """None before there is an engine."""
    position: int = 0
    """How many events of the stage had come."""
    last: bool = False

    @property
    def waits(self) -> bool:
        """Nothing goes on before it is answered."""
        return self.asks and self.given is None


class LessonControl(Protocol):
    """A lesson under way. One call at a time."""

    title: str

    @property
    def page(self) -> Page:
        """The page at hand."""

    @property
    def at_newest(self) -> bool:
        """The page at hand is the last one that was opened."""

    @property
    def score(self) -> tuple[int, int]:
        """Right first answers, and all of them."""

    def forward(self) -> str | None:
        """To the next page, which runs the engine if the page is new; a sentence if that is not
        possible.
        """

    def back(self) -> str | None:
        """To the page before; a sentence if there is none."""

    def answer(self, typed: str) -> str | None:
        """Answer the open question and go on to what comes of it; a sentence if `typed` is no
        answer.
        """
