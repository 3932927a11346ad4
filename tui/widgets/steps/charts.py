"""Charts of the last steps: one column per step, in eighths of a cell. Few steps are drawn wider.

    tokens per step  now 4, at most 64
    █
    █▁▁▁▁▁▁▁▁▁▁▁

A step where the value is unknown, or where nothing was measured, has an empty column.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from minivllm.text import format_memory
from minivllm.tui.draw.lines import Line, Row, line
from minivllm.tui.draw.selection import Target
from minivllm.tui.draw.selection import step as to_step
from minivllm.tui.state.histories import StepRecord
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.state.pace import duration, rate_words
from minivllm.tui.widgets.frame.panel import Panel

_EIGHTHS = " ▁▂▃▄▅▆▇█"

Value = float | None
"""What a step has in a chart; None for an empty column."""


class Chart(NamedTuple):
    name: str
    style: str
    values: list[Value]
    """One for each step in memory, oldest first."""
    shown: Callable[[float], str]
    """A value in words."""
    full: float | None = None
    """The value of a full column; None for the largest value that is visible."""
    now: Value = None
    """In place of the last value: that of the top line."""


def columns(values: list[Value], full: float, height: int) -> list[str]:
    """The columns as `height` rows of text, top row first. Each value above 0 is visible."""
    eighths = [
        max(round(min(value / full, 1.0) * height * 8), 1) if value and full > 0 else 0
        for value in values
    ]
    return [
        "".join([_EIGHTHS[min(max(number - 8 * row, 0), 8)] for number in eighths])
        for row in reversed(range(height))
    ]


class StepCharts(Panel):
    HELP_TITLE = "Last steps"
    HELP_TEXT = (
        "One column per step: output tokens per second, or per step on the virtual clock; the time"
        " of the step, if it was measured; with speculative decoding, the share of drafts that were"
        " right; the blocks in use, where a full column is the whole pool. A click selects a step."
    )
    NEWEST_LAST = True

    def targets(self) -> list[Target]:
        """All steps in memory, even those left of the charts."""
        return [to_step(record.step) for record in self._model.steps.records]

    def target_at(self, x: int, y: int) -> Target | None:
        """The step of a column; no target in each span, which would cut the rows into cells."""
        records = self._model.steps.records
        shown, wide = _shown(records, self.content_size.width)
        at = x // wide
        return to_step(records[-shown:][at].step) if y >= 0 and 0 <= at < shown else None

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        records = model.steps.records
        if not records:
            return [line(width, ("no step has ended yet", "faint"))]
        chosen, charts = self.selection.step, charts_of(model)
        at = next((i for i, record in enumerate(records) if record.step == chosen), None)
        shown, wide = _shown(records, width)
        lines: list[Line] = []
        # A chart of equal values shows nothing: its words are enough.
        varied = [len({*chart.values[-shown:]} - {None}) > 1 for chart in charts]
        num, room = sum(varied), height - varied.count(False)
        for chart, is_varied in zip(charts, varied, strict=True):
            rows = max(-(-room // num), 1) if is_varied else 1
            num, room = num - is_varied, room - rows * is_varied
            newest = chart.values[-1] if chart.now is None else chart.now
            now = ("now", newest) if at is None else ("chosen step", chart.values[at])
            cells = chart.values[-shown:]
            lines.append(_words(chart, cells, width, *now))
            lit = shown if at is None else max(at - len(records) + shown, 0)
            most = chart.full or max((cell for cell in cells if cell is not None), default=0.0)
            for row in columns(cells, most, rows - 1):
                bars = [sign * wide for sign in row]
                columns_of = Row(width).put("".join(bars[:lit]), chart.style)
                columns_of.put("".join(bars[lit : lit + 1]), "text*")
                lines.append(columns_of.put("".join(bars[lit + 1 :]), chart.style).line())
        return lines[:height]


def _shown(records: list[StepRecord], width: int) -> tuple[int, int]:
    """How many of the newest steps are shown, and the cells of each."""
    shown = max(min(len(records), width), 1)
    return shown, next((by for by in (8, 4, 2) if shown * by <= width), 1)


def _words(chart: Chart, cells: list[Value], width: int, when: str, value: Value) -> Line:
    known = [cell for cell in cells if cell is not None]
    row = Row(width).put(f"{chart.name}  ", "muted")
    row.put(f"{when} ", "muted").put("none" if value is None else chart.shown(value), "text*")
    most = chart.shown(max(known)) if known else ""
    if known and len(f", at most {most}") <= row.room:
        row.put(", at most ", "muted").put(most, "text")
    return row.line()


def charts_of(model: DashboardModel) -> list[Chart]:
    records, total = model.steps.records, model.header.num_usable_blocks
    rates = [float(record.num_tokens) for record in records]
    if model.pace.is_timed:
        rates = _rates(records)
    name = f"output tokens per {model.pace.unit}"
    charts = [Chart(name, "good", rates, rate_words, now=model.rate())]
    if any(record.draft_tokens for record in records):
        shares = [
            record.num_accepted / record.draft_tokens if record.draft_tokens else None
            for record in records
        ]
        charts.append(Chart("drafts that were right", "hue4", shares, "{:.0%}".format, 1.0))
    if any(any(record.seconds) for record in records):
        times = [sum(record.seconds) for record in records]
        charts.append(Chart("time of a step", "accent", times, duration))

    def blocks(value: float) -> str:
        memory = format_memory(int(value) * model.header.block_bytes)
        return f"{value:.0f} of {total:,}" + (f", {memory}" if model.header.block_bytes else "")

    used = [float(record.num_used_blocks) for record in records]
    return [*charts, Chart("blocks in use", "hue1", used, blocks, float(total))]


def _rates(records: list[StepRecord]) -> list[Value]:
    """Output tokens per second since the end of the step before; None for the first step.

    The pause between two steps counts, as in the top line.
    """
    rates: list[Value] = [None]
    for before, record in pairwise(records):
        seconds = record.t - before.t
        rates.append(record.num_tokens / seconds if seconds > 0 else None)
    return rates
