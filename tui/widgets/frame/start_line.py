"""What the start of an engine is doing now, in one line."""

from minivllm.text import clean
from minivllm.tui.draw.lines import Line, Row
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
        return [Row(width).put("▶ ", "accent").put(clean(start.text), "text").line()][:height]
