"""The Requests screen: a timeline of every request, and all details of the selected one."""

from collections.abc import Iterable

from textual.widget import Widget

from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.widgets.frame.boxes import PanelColumn
from minivllm.tui.widgets.requests.request_detail import RequestDetail
from minivllm.tui.widgets.requests.timelines import Timelines


class RequestsScreen(DashboardScreen):
    NAME = "requests"

    def body(self) -> Iterable[Widget]:
        with PanelColumn(id="requests-body"):
            yield Timelines(id="timelines")
            yield RequestDetail(id="request-detail")
