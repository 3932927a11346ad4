"""The Compare screen: two recordings of one trace, after the same step.

When the first recording moves, the second follows by step, not by number of events: two policies
emit different events.
"""

from collections.abc import Iterable

from textual.widget import Widget

from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.widgets.compare.comparison import Comparison
from minivllm.tui.widgets.compare.side import Side
from minivllm.tui.widgets.frame.boxes import PanelRow
from minivllm.tui.widgets.frame.sentences import WatchSentence


class CompareScreen(DashboardScreen):
    NAME = "compare"

    def body(self) -> Iterable[Widget]:
        # Keep references: one more frame can be drawn while the screen is being removed.
        self._watch = WatchSentence(self.context.watch, id="watch")
        yield self._watch
        with PanelRow(id="sides"):
            yield Side("A: this recording", is_second=False, id="side-a")
            yield Side("B: the second one", is_second=True, id="side-b")
        self._comparison = Comparison(id="comparison")
        yield self._comparison

    def draw(self) -> None:
        first, second = self.context.transport, self.context.second
        if second is not None and second.view.fold.step != first.view.fold.step:
            second.to_step(first.view.fold.step)
        for panel in (self._watch, self._comparison):
            panel.set_class(second is None, "-away")
        for panel in self.panels():
            panel.show(second.view if second is not None and panel.id == "side-b" else first.view)
