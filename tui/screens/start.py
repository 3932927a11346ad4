"""The Start screen: shown while an engine is being built, in place of all other screens."""

from collections.abc import Iterable

from textual.widget import Widget

from minivllm.text import clean
from minivllm.tui.draw.lines import Line, Row, line, wrap
from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel


class StartLine(Panel, can_focus=False):
    HELP_TITLE = "Loading the model"
    HELP_TEXT = (
        "The engine is being built: the import of PyTorch, the kernels (built with the machine's"
        " compiler at the first start), the model's files and weights, and the memory for the KV"
        " cache. Then the screens open. q leaves at any time."
    )

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        start = None if self.context is None else self.context.start
        if start is None or not start.text:
            return []
        watch = [line(width, (row, "muted")) for row in wrap(clean(self.context.watch), width)]
        loading = Row(width).put("▶ ", "accent").put(clean(start.text), "text").line()
        return [loading, (), *watch][:height]


class StartScreen(DashboardScreen):
    NAME = "start"
    IS_NARRATED = False

    def body(self) -> Iterable[Widget]:
        yield StartLine(id="start-line")
