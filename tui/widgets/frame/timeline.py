"""Time line: the current position in the recording, and the last event before it."""

from itertools import groupby
from operator import itemgetter

from textual.events import MouseDown, MouseMove, MouseUp
from textual.message import Message

from minivllm.events import types as ev
from minivllm.events.recording.recording import Recording
from minivllm.tui.draw.lines import Line, Row, Span
from minivllm.tui.state.decisions import sentence_of
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel

_LEGEND = (("┴", "good", "hit"), ("┬", "warn", "evicted"), ("↺", "bad", "preempted"))
_LEGEND_WIDTH = sum(len(sign) + len(word) + 3 for sign, _, word in _LEGEND) + 1
_ROOM_FOR_EVENT = 50
"""Columns for the last event, before the legend gets any."""


class TimeLine(Panel, can_focus=False):
    """A slider with ticks, the step and the last event. Click or drag it to move."""

    HELP_TITLE = "Time bar"
    HELP_TEXT = (
        "The current position in the recording, and the last event before it. Ticks show prefix"
        " cache hits (┴), evictions (┬), both (┼) and preemptions (↺). ← and → go step by step,"
        " [ and ] event by event, { and } to the next notable event, end back to live; click or"
        " drag the bar to move."
    )

    _ticks: tuple[object, list[tuple[Span, Span]]] = None, []
    """What they were made for, and for each cell the sign before and after the slider is there."""

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
        row = Row(width).put(" ").add(*self._slider(_slider_width(width)))
        row.put(f" step {model.fold.step:,}", "text*")
        row.put(f"/{recording.head.fold.step:,}", "muted")
        seen = [f"{of.fold.last_seq:,}".replace("-1", "–") for of in (model, recording.head)]
        row.put(f"  event {seen[0]}", "text").put(f"/{seen[1]}", "muted")
        if transport.speed != 1.0:
            row.put(f"  {transport.speed:g}×", "warn")
        # Not while it moves: the event would be read from the file in each frame.
        event = transport.event_here() if transport.state == "paused" else None
        if event is not None:
            has_legend = row.room >= _ROOM_FOR_EVENT + _LEGEND_WIDTH
            room = row.put("  ").room
            words = f"{event.__struct_config__.tag}: {sentence_of(event)}"
            row.put(words, width=room - _LEGEND_WIDTH if has_legend else None)
        if row.room >= _LEGEND_WIDTH:
            row.put("", width=row.room - _LEGEND_WIDTH)
            for sign, style, word in _LEGEND:
                row.put(f"  {sign}", style).put(f" {word}", "muted")
        return [row.line()]

    def _slider(self, width: int) -> list[Span]:
        transport, recording = self.context.transport, self.context.transport.recording
        made_for = _, count, _ = recording, len(recording), width
        if self._ticks[0] != made_for:  # finding them takes a good part of a frame
            signs = [_ticks(recording, *_events_in(cell, count, width)) for cell in range(width)]
            self._ticks = made_for, signs
        at = _cell(transport.position, count, width)
        cells = [signs[cell < at] for cell, signs in enumerate(self._ticks[1])]
        cells[at] = ("●", "accent")
        return [
            ("".join(sign for sign, _ in run), style)
            for style, run in groupby(cells, key=itemgetter(1))
        ]


def _ticks(recording: Recording, start: int, stop: int) -> tuple[Span, Span]:
    """The signs for the events number `start` to `stop - 1`, as part of the slider's line."""
    if recording.has_notable(ev.RequestPreempted, start, stop):
        return (("↺", "bad"),) * 2
    is_hit = recording.has_notable(ev.BlockHit, start, stop)
    is_evicted = recording.has_notable(ev.BlockEvicted, start, stop)
    style = "warn" if is_evicted else "good" if is_hit else None
    number = is_hit + 2 * is_evicted
    return ("─┴┬┼"[number], style or "faint"), ("━┷┯┿"[number], style or "accent")


def _slider_width(width: int) -> int:
    return max(min(width // 3, 60), 8)


def _cell(position: int, count: int, width: int) -> int:
    return min(position * width // count, width - 1) if count else 0


def _events_in(cell: int, count: int, width: int) -> tuple[int, int]:
    """Numbers of the events after which the slider is in this cell: the first, and one too many."""
    first, end = (-(-edge * count // width) - 1 for edge in (cell, cell + 1))
    return max(first, 0), count if cell == width - 1 else end
