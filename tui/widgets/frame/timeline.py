"""Time line: the current position in the recording, and the last event before it."""

from textual.events import MouseDown, MouseMove, MouseUp
from textual.message import Message

from minivllm.events import types as ev
from minivllm.text import plural
from minivllm.tui.draw.lines import Line, Row
from minivllm.tui.state.decisions import sentence_of
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel


class TimeLine(Panel, can_focus=False):
    """A slider with marks, the step and the last event. A click or drag moves in time."""

    HELP_TITLE = "Time bar"
    HELP_TEXT = (
        "The current position in the recording, with marks (m) as letters, and the last"
        " event before it. ← and → go step by step, [ and ] event by event, { and } to"
        " the next notable event, end back to live; click or drag the bar to move."
    )

    class Moved(Message):
        """The user has moved the slider. part: the new position, from 0 (start) to 1 (end)."""

        def __init__(self, part: float) -> None:
            super().__init__()
            self.part = part

    def on_mouse_down(self, event: MouseDown) -> None:
        if 1 <= event.x <= _slider_width(self.content_size.width):
            self.capture_mouse()
            self._put_slider(event.x)

    def on_mouse_move(self, event: MouseMove) -> None:
        if self.app.mouse_captured is self:
            self._put_slider(event.x)

    def on_mouse_up(self, event: MouseUp) -> None:
        if self.app.mouse_captured is self:
            self.release_mouse()

    def _put_slider(self, x: int) -> None:
        # The panel's first column is empty.
        last = _slider_width(self.content_size.width) - 1
        self.post_message(self.Moved(min(max(x - 1, 0), last) / last))

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        transport = self.context.transport
        recording = transport.recording
        row = Row(width)
        slider_width = _slider_width(width)
        at = _cell(transport.position, len(recording), slider_width)
        cells = ["━"] * at + ["●"] + ["─"] * (slider_width - at - 1)
        for number, mark in enumerate(transport.marks):
            cells[_cell(mark.position, len(recording), slider_width)] = str((number + 1) % 10)
        row.put(" " + "".join(cells[: at + 1]), "accent").put("".join(cells[at + 1 :]), "faint")
        row.put(f" step {model.fold.step:,}", "text*").put(
            f"/{recording.head.fold.step:,}", "muted"
        )
        row.put(f"  event {transport.position:,}", "text").put(f"/{len(recording):,}", "muted")
        if transport.speed != 1.0:
            row.put(f"  {transport.speed:g}×", "warn")
        if transport.marks:
            row.put(f"  {plural(len(transport.marks), 'mark')}", "muted")
        # Not while live: the event would be read from the file in each frame.
        event = None if transport.state == "live" else transport.event_here()
        if event is not None:
            row.put("  ").put(_event(event), "text")
        return [row.line()]


def _slider_width(width: int) -> int:
    return max(min(width // 3, 60), 8)


def _cell(position: int, count: int, width: int) -> int:
    return min(position * width // count, width - 1) if count else 0


def _event(event: ev.Event) -> str:
    return f"{event.__struct_config__.tag}: {sentence_of(event)}"
