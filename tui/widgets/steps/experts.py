"""A heat map of a mixture of experts: how many tokens each expert got, layer by layer.

layer    0    1    2    3
    0    2    ·    1    1
    1    ·    3    ·    1
"""

from minivllm.text import plural
from minivllm.tui.draw.lines import Line, Row, line
from minivllm.tui.state.decisions import experts_read
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel

_AXIS = _WIDEST = 5
_EIGHTHS = "▁▂▃▄▅▆▇█"
_LEVELS = ((0.75, "warn*!"), (0.5, "warn*"), (0.25, "warn"), (0.0, "text"))
"""(share of the largest number, style), largest first."""


class ExpertMap(Panel):
    HELP_TITLE = "Experts"
    HELP_TEXT = (
        "Of a model with a mixture of experts: how many tokens of a step each expert of each layer"
        " got. A step reads the weights of an expert from memory only if it has a token, so few"
        " tokens read few experts, and a large batch soon reads all. M records it, as it records"
        " attention."
    )
    RULE = "minivllm.runtime.model.decoder:Experts.forward"
    KEYS = ("engine.mass",)

    def title(self, model: DashboardModel, width: int) -> str:
        if (event := model.experts) is None:
            return self.HELP_TITLE
        return f"Experts  step {event.step:,} reads {experts_read(event)}"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        recorded = [] if model.experts is None else model.experts.counts
        layers = [(layer, counts) for layer, counts in enumerate(recorded) if counts]
        if not layers:
            return [line(width, ("M records the experts of a model that has some", "faint"))]
        peak = max(1, *(max(counts) for _, counts in layers))
        room = (width - _AXIS) // len(layers[0][1])
        pitch = min(room, _WIDEST) if room > len(str(peak)) else 1
        shown = layers if len(layers) < height else layers[: max(height - 2, 0)]
        head = Row(width).put("layer", "muted")
        for expert in range(len(layers[0][1]) if pitch > 1 else 0):
            head.put(f"{expert:>{pitch}}", "muted")
        drawn = [head.line()]
        for layer, counts in shown:
            row = Row(width).put(f"{layer:>{_AXIS}}" if pitch > 1 else f"{layer:>4} ", "muted")
            for count in counts:
                number = f"{count:>{pitch}}" if pitch > 1 else _EIGHTHS[count * 7 // peak]
                row.put(number if count else f"{'·':>{pitch}}", _style(count / peak), pitch)
            drawn.append(row.line())
        if more := len(layers) - len(shown):
            drawn.append(line(width, (f"+ {plural(more, 'more layer')}", "muted")))
        return drawn[:height]


def _style(share: float) -> str:
    return next((style for least, style in _LEVELS if share > least), "faint")
