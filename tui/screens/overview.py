"""The overview: all that matters of one engine on one screen."""

from collections.abc import Iterable

from textual.widget import Widget

from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.widgets.blocks.blockmap import BlockMap
from minivllm.tui.widgets.blocks.freequeue import FreeQueue
from minivllm.tui.widgets.events.eventlog import EventLog
from minivllm.tui.widgets.frame.boxes import PanelColumn, PanelRow
from minivllm.tui.widgets.frame.sentences import Summary, Watch
from minivllm.tui.widgets.requests.finished import Finished
from minivllm.tui.widgets.requests.slots import Slots
from minivllm.tui.widgets.requests.waiting import Waiting
from minivllm.tui.widgets.steps.budget import Budget


class Overview(DashboardScreen):
    """Slots across the top; memory and what came of it on the left; plans and decisions on the
    right.
    """

    NAME = "overview"

    def body(self) -> Iterable[Widget]:
        # Held and not looked for later: a last frame may come while the screen is taken down.
        self._summary, self._slots = Summary(id="summary"), Slots(id="slots")
        self._summary.add_class("-away")
        yield Watch(self.context.watch, id="watch")
        yield self._summary
        yield self._slots
        with PanelRow(id="body"):
            with PanelColumn(id="memory"):
                yield BlockMap(id="blockmap")
                yield FreeQueue(id="freequeue")
                yield Finished(id="finished")
            with PanelColumn(id="plan"):
                yield Budget(id="budget")
                yield Waiting(id="waiting")
                yield EventLog(id="eventlog")

    def draw(self) -> None:
        """The summary comes once the run is over, and while the picture stands at its end."""
        transport, summary, slots = self.context.transport, self._summary, self._slots
        told = self.context.finished if transport.state == "live" else None
        if told is not None:
            summary.tell(told)
        # By a class and not by `display`, which would be stronger than a terminal that is too
        # small.
        summary.set_class(told is None, "-away")
        # When nothing runs any more, the summary takes the place of the empty slots.
        slots.set_class(told is not None and not transport.view.fold.running, "-away")
        super().draw()
