"""The requests: every life as a line, and one of them in full."""

from collections.abc import Iterable

from textual.widget import Widget

from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.widgets.frame.boxes import PanelColumn
from minivllm.tui.widgets.requests.request_detail import RequestDetail
from minivllm.tui.widgets.requests.timelines import Timelines


class RequestsScreen(DashboardScreen):
    """Timelines above, the chosen request below."""

    NAME = "requests"

    def body(self) -> Iterable[Widget]:
        with PanelColumn(id="requests-body"):
            yield Timelines(id="timelines")
            yield RequestDetail(id="request-detail")
