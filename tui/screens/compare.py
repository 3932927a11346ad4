"""The Compare screen: two recordings of one trace, after the same step.

The second one follows the first, whatever moves it: keys, playing, or a live engine. The easy thing
to get wrong is to compare after the same number of events: two policies say different things, and
only steps count alike.
"""

from collections.abc import Iterable

from textual.widget import Widget

from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.widgets.compare.comparison import Comparison
from minivllm.tui.widgets.compare.side import Side
from minivllm.tui.widgets.frame.boxes import PanelRow
from minivllm.tui.widgets.frame.sentences import Watch


class CompareScreen(DashboardScreen):
    """What to watch, both sides, and what differs under them."""

    NAME = "compare"

    def body(self) -> Iterable[Widget]:
        # Held and not looked for later: a last frame may come while the screen is taken down.
        self._watch = Watch(self.context.watch, id="watch")
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
