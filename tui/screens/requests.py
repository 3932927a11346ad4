"""The Requests screen: a timeline of every request, and all details of the selected one.

In a tall terminal, also charts of the latency; if a sequence is watched, the choice of its token.
"""

from collections.abc import Iterable

from textual.widget import Widget

from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.widgets.choice.choice import Choice
from minivllm.tui.widgets.frame.boxes import PanelColumn
from minivllm.tui.widgets.requests.request_detail import RequestDetail
from minivllm.tui.widgets.requests.timelines import Timelines
from minivllm.tui.widgets.steps.charts import LatencyCharts


class RequestsScreen(DashboardScreen):
    NAME = "requests"

    def body(self) -> Iterable[Widget]:
        with PanelColumn(id="requests-body"):
            yield Timelines(id="timelines")
            yield LatencyCharts(id="latency")
            yield RequestDetail(id="request-detail")
            yield Choice(id="requests-choice")

    def draw(self) -> None:
        """Show the last panel as soon as a token is explained."""
        self.set_class(self.context.transport.view.explanations.last is not None, "-explains")
        super().draw()
