"""The Compare screen: two recordings of the same requests at the same moment, or a race of both.

When the first recording moves, the second follows, to the same step or the same second (key S).
"""

from collections.abc import Iterable

from textual.containers import Horizontal
from textual.widget import Widget

from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.time.follow import follow
from minivllm.tui.widgets.compare.comparison import Comparison
from minivllm.tui.widgets.compare.race_line import RaceLine
from minivllm.tui.widgets.compare.side import Side


class CompareScreen(DashboardScreen):
    NAME = "compare"

    def body(self) -> Iterable[Widget]:
        self.narrator.add_class("-away")
        # Keep references: one more frame can be drawn while the screen is being removed.
        self._line = RaceLine(id="race")
        # Before the first layout, so that the first picture has rows for the note.
        self._line.context = self.context
        self._line.set_class(bool(self._line.note()), "-noted")
        yield self._line
        with Horizontal(id="sides"):
            yield Side("A", is_second=False, id="side-a")
            self._other = Side("B", is_second=True, id="side-b")
            yield self._other
        self._comparison = Comparison(id="comparison")
        yield self._comparison

    def draw(self) -> None:
        first, second, tour = self.context.transport, self.context.second, self.context.tour
        # Two recordings have two stories: only a tour's next stop is told here.
        self.narrator.set_class(tour is None or not tour.is_open, "-away")
        if second is not None:
            follow(first, second, self.context.same)
        self._line.set_class(bool(self._line.note()), "-noted")
        self._line.set_class(self._line.is_over, "-over")
        self._comparison.set_class(second is None, "-away")
        self._other.set_class(second is None, "-away")
        self._comparison.set_class(self.context.behind is not None, "-race")
        for panel in self.panels:
            is_second = second is not None and panel.id == "side-b"
            panel.show(second.view if is_second else first.view)
