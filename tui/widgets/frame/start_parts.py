"""The parts of a start, one per line: PyTorch, kernels, model, weights, KV cache."""

from minivllm.text import clean
from minivllm.tui.draw.lines import Line, Row
from minivllm.tui.start import StartPart
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel

_BAR = 24
"""Columns of a bar at most; a narrow panel has a shorter one."""
_NAME = 10
_SECONDS_SHOWN = 0.05


class StartParts(Panel, can_focus=False):
    HELP_TITLE = "Loading the model"
    HELP_TEXT = (
        "The engine is being built: the import of PyTorch, the kernels (built with the machine's"
        " compiler at the first start), the model's files, the weights with the bytes read so far,"
        " and the memory for the KV cache. Then the screens open. q leaves at any time."
    )

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        start = None if self.context is None else self.context.start
        parts = [] if start is None else start.parts()
        return [_line(part, width) for part in parts][:height]


def _line(part: StartPart, width: int) -> Line:
    row = Row(width)
    if not part.text:
        return row.put("  ").put(part.name, "faint").line()
    is_done = part.done >= 1.0
    row.put("✓ " if is_done else "▶ ", "good" if is_done else "accent")
    row.put(part.name, "text*", _NAME).put(" ")
    if 0.0 < part.done < 1.0:
        room = max(min(_BAR, width // 3), 1)
        filled = int(part.done * room)
        row.put("━" * filled, "accent").put("─" * (room - filled), "faint").put(" ")
    row.put(clean(part.text), "text")
    if part.seconds >= _SECONDS_SHOWN:
        row.put(f"  {part.seconds:.1f} s", "muted")
    return row.line()
