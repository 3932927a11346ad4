"""Charts of the last steps: one column per step, in eighths of a cell. Few steps are drawn wider.

    tokens per step  now 4, at most 64
    █
    █▁▁▁▁▁▁▁▁▁▁▁

A chart is computed once per step, not once per frame. A step where the value is unknown, or where
nothing was measured, has an empty column.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from minivllm.text import format_memory
from minivllm.tui.draw.lines import Line, Row
from minivllm.tui.draw.selection import Target
from minivllm.tui.draw.selection import step as to_step
from minivllm.tui.state.histories import StepRecord
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.state.pace import duration
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.requests.timelines import Axis, Timelines

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


class Charts(Panel):
    """A subclass says which charts it has."""

    NEWEST_LAST = True

    def charts(self, model: DashboardModel) -> list[Chart]:
        raise NotImplementedError

    def last_row(self, model: DashboardModel, width: int) -> list[Line]:
        """At most one row below the charts."""
        return []

    def targets(self) -> list[Target]:
        """All steps in memory, even those left of the charts."""
        records = [] if self._model is None else self._model.steps.records
        return [to_step(record.step) for record in records]

    def axis(self, model: DashboardModel, width: int) -> Axis:
        """The newest steps, each with one cell."""
        records = model.steps.records
        first = max(records[0].step, records[-1].step - width + 1)
        size = records[-1].step - first + 1
        return Axis(first, 1, size, next((by for by in (8, 4, 2) if size * by <= width), 1))

    def target_at(self, x: int, y: int) -> Target | None:
        """The step of a column; no target in each span, which would cut the rows into cells."""
        model = self._model
        if model is None or not model.steps.records or y < 0:
            return None
        axis = self.axis(model, self.content_size.width)
        cell = (x - axis.indent) // axis.wide
        steps = (record.step for record in model.steps.records)
        return next((to_step(step) for step in steps if axis.cell(step) == cell), None)

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        records = model.steps.records
        if not records:
            return [Row(width).put("no step has ended yet", "faint").line()]
        chosen = None if self.context is None else self.context.selection.step
        axis, charts = self.axis(model, width), self.charts(model)
        steps = [record.step for record in records]
        below = self.last_row(model, width) if height > 2 * len(charts) else []
        at = steps.index(chosen) if chosen in steps else None
        room, lines = height - len(below), []
        cells = [_in_cells(chart, steps, axis) for chart in charts]
        high = [chart for chart, values in zip(charts, cells, strict=True) if any(values)]
        spare = room - (len(charts) - len(high))  # a chart without a column needs one row
        for chart, values in zip(charts, cells, strict=True):
            rows = 1
            if chart in high:
                number = high.index(chart)
                rows = max(spare // len(high) + (number < spare % len(high)), 1)
            now = ("now", chart.values[-1]) if at is None else ("chosen step", chart.values[at])
            lines.append(_words(chart, values, width, *now))
            lit = None if at is None else axis.cell(steps[at])
            lines += _columns(chart, values, axis, width, rows - 1, lit)
        return [*lines[:room], *below]


def _in_cells(chart: Chart, steps: list[int], axis: Axis) -> list[Value]:
    """The largest value in each cell of the axis."""
    cells: list[Value] = [None] * axis.width
    for step, value in zip(steps, chart.values, strict=True):
        cell = axis.cell(step)
        if value is not None and 0 <= cell < axis.width:
            cells[cell] = max(value, cells[cell] or 0.0)
    return cells


def _words(chart: Chart, cells: list[Value], width: int, when: str, value: Value) -> Line:
    known = [cell for cell in cells if cell is not None]
    row = Row(width).put(f"{chart.name}  ", "muted")
    row.put(f"{when} ", "muted").put("none" if value is None else chart.shown(value), "text*")
    most = chart.shown(max(known)) if known else ""
    if known and len(f", at most {most}") <= row.room:
        row.put(", at most ", "muted").put(most, "text")
    return row.line()


def _columns(
    chart: Chart, cells: list[Value], axis: Axis, width: int, height: int, lit: int | None
) -> list[Line]:
    """lit: the cell of the selected step."""
    most = max((cell for cell in cells if cell is not None), default=0.0)
    lines = []
    for row in columns(cells, chart.full or most, height):
        wide = [sign * axis.wide for sign in row]
        cut = len(wide) if lit is None else max(lit, 0)
        bars = Row(width).put(" " * axis.indent).put("".join(wide[:cut]), chart.style)
        bars.put("".join(wide[cut : cut + 1]), "text*").put("".join(wide[cut + 1 :]), chart.style)
        lines.append(bars.line())
    return lines


class StepCharts(Charts):
    HELP_TITLE = "Last steps"
    HELP_TEXT = (
        "One column per step: output tokens per second, or per step on the virtual clock; the"
        " time of the step, if it was measured; with speculative decoding, the share of drafts that"
        " were right; the blocks in use, where a full column is the whole pool. A click selects"
        " a step. Below: the memory of the model's weights beside"
        " the KV cache."
    )

    def charts(self, model: DashboardModel) -> list[Chart]:
        records, header = model.steps.records, model.header
        if not model.pace.is_timed:
            per = [float(record.num_tokens) for record in records]
            charts = [Chart("output tokens per step", "good", per, _count)]
        else:
            charts = [Chart("output tokens per second", "good", _rates(records), _count)]
        if any(record.draft_tokens for record in records):
            shares = [
                record.num_accepted / record.draft_tokens if record.draft_tokens else None
                for record in records
            ]
            charts.append(Chart("drafts that were right", "hue4", shares, _percent, 1.0))
        if any(any(record.seconds) for record in records):
            times = [sum(record.seconds) for record in records]
            charts.append(Chart("time of a step", "accent", times, duration))
        total = len(model.fold.blocks)

        def blocks(value: float) -> str:
            used = f"{value:.0f} of {total:,}"
            if not header.block_bytes:
                return used
            return f"{used}, {format_memory(int(value) * header.block_bytes)}"

        used = [float(record.num_used_blocks) for record in records]
        return [*charts, Chart("blocks in use", "hue1", used, blocks, float(total))]

    def last_row(self, model: DashboardModel, width: int) -> list[Line]:
        """Weights, used blocks and free blocks as one bar, with their sizes, if they fit."""
        header, record = model.header, model.steps.records[-1]
        if not header.block_bytes or not header.weight_bytes:
            return []
        used = record.num_used_blocks * header.block_bytes
        free = len(model.fold.blocks) * header.block_bytes - used
        parts = (
            (header.weight_bytes, "█", "muted", "weights"),
            (used, "▓", "hue1", "blocks"),
            (free, "░", "faint", "free"),
        )
        words = [f" {sign} {name} {format_memory(size)}" for size, sign, _, name in parts]
        row = Row(width).put("memory ", "muted")
        room, total = row.room - sum(map(len, words)), header.weight_bytes + used + free
        if room < 0:
            return []
        if room >= 10:
            ends = [0, header.weight_bytes, header.weight_bytes + used, total]
            cells = [end * room // total for end in ends]
            for (_, sign, style, _), (first, last) in zip(parts, pairwise(cells), strict=True):
                row.put(sign * (last - first), style)
        for (_, _, style, _), word in zip(parts, words, strict=True):
            row.put(word[:3], style).put(word[3:], "muted")
        return [row.line()]


def _rates(records: list[StepRecord]) -> list[Value]:
    """Output tokens per second since the end of the step before; None for the first step.

    The pause between two steps counts, as in the top line.
    """
    rates: list[Value] = [None]
    for before, record in pairwise(records):
        seconds = record.t - before.t
        rates.append(record.num_tokens / seconds if seconds > 0 else None)
    return rates


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _percent(value: float) -> str:
    return f"{value:.0%}"


class LatencyCharts(Charts):
    HELP_TITLE = "Latency"
    HELP_TEXT = (
        "The steps are those of the bars above. Time to first token: how long the request had"
        " waited that got its first token in a step, from its arrival on. Time between tokens: how"
        " long after its last token a sequence got the next one; a high column is a step with a"
        " long prefill, or a sequence that was preempted. If there are several, the longest"
        " counts. A click selects a step."
    )

    def __init__(self, timelines: Timelines | None = None, *, id: str | None = None) -> None:
        """timelines: the bars above, for the same axis; else the newest steps"""
        super().__init__(id=id)
        self._timelines = timelines

    def axis(self, model: DashboardModel, width: int) -> Axis:
        above = None if self._timelines is None else self._timelines.axis
        return above or super().axis(model, width)

    def charts(self, model: DashboardModel) -> list[Chart]:
        records = model.steps.records
        first = [record.first_token_wait for record in records]
        later = [record.token_wait for record in records]
        return [
            Chart("time to first token", "accent", first, model.pace.words),
            Chart("time between tokens", "good", later, model.pace.words),
        ]
