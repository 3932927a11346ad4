"""The Overview screen: everything important about one engine."""

from collections.abc import Iterable

from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.widgets.blocks.blockmap import BlockMap
from minivllm.tui.widgets.blocks.freequeue import FreeQueue
from minivllm.tui.widgets.blocks.hostmap import HostMap
from minivllm.tui.widgets.choice.choice import Choice, shows_choice
from minivllm.tui.widgets.events.eventlog import EventLog
from minivllm.tui.widgets.frame.sentences import Suggestions, Summary
from minivllm.tui.widgets.requests.finished import Finished
from minivllm.tui.widgets.requests.slots import Slots
from minivllm.tui.widgets.requests.waiting import Waiting
from minivllm.tui.widgets.steps.budget import Budget
from minivllm.tui.widgets.steps.charts import StepCharts


class OverviewScreen(DashboardScreen):
    NAME = "overview"

    def body(self) -> Iterable[Widget]:
        # Keep references: one more frame can be drawn while the screen is being removed.
        self._summary, self._slots = Summary(id="summary"), Slots(id="slots")
        # Only `draw` knows whether they are needed, and the first layout comes before it.
        self._summary.add_class("-away")
        self._suggestions, self._ended = Suggestions(id="suggestions"), Finished(id="finished")
        self._suggestions.set_class(not self.context.suggests, "-away")
        yield self._suggestions
        yield self._summary
        yield self._slots
        with Horizontal(id="body"):
            with Vertical(id="memory"):
                yield BlockMap(id="blockmap")
                if self.has_two_memories:
                    yield HostMap(id="hostmap")
                yield StepCharts(id="charts")
                yield FreeQueue(id="freequeue")
                yield self._ended
            with Vertical(id="plan"):
                yield Budget(id="budget")
                yield Waiting(id="waiting")
                yield EventLog(id="eventlog")
                yield Choice(id="overview-choice")

    def draw(self) -> None:
        """Show the suggestions before the run, and the summary after it while live.

        The choice of a token has its place while the selected or first sequence is explained.
        """
        transport, summary, slots = self.context.transport, self._summary, self._slots
        finished = self.context.finished if self.context.shows_the_end else None
        newest = transport.recording.head.fold
        begins = self.context.suggests and newest.step == 0 and not newest.requests
        self._suggestions.set_class(not begins, "-away")
        self.narrator.set_class(begins, "-away")
        if finished is not None:
            summary.tell(finished)
        # Use a CSS class: `display` would override the style sheet's rule for small terminals.
        summary.set_class(finished is None, "-away")
        is_over = finished is not None and not transport.view.fold.running
        slots.set_class(begins or is_over, "-away")
        self.set_class(shows_choice(transport.view, self.context.selection), "-explains")
        super().draw()
        # An answer takes its rows from here, so that the map keeps its layout.
        self._ended.styles.height = max(5 - len(self.notice.rows(self.size.width)), 0)
