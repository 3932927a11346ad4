"""Timelines: one row per sequence, from arrival to end, over the steps of the engine.

    ░░▓▓████▁▁▓███     queued, prefill, decode, preempted (a gap), ...

Prefill and decode have the sequence's hue. If there is room, a bar is two rows high. The bars are
stretched to the panel's width.

The axis is in steps: on an axis in seconds, a slow step would look like a long wait. If a cell
stands for several steps, it shows the rarest phase: otherwise one queued step would vanish behind a
hundred decodes. Which steps share a cell changes only with the scale, so cells do not move.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from rich.cells import cell_len

from minivllm.events.ledger import SequencePhase, SequenceRecord
from minivllm.text import short_name
from minivllm.tui.draw.lines import Line, Row, Span, line, targets_of
from minivllm.tui.draw.selection import Target
from minivllm.tui.draw.selection import sequence as to_sequence
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.requests.finished import REASONS

SIGNS: dict[SequencePhase, str] = {"queued": "░", "prefill": "▓", "decode": "█", "preempted": "▁"}
_STYLES: dict[SequencePhase, str] = {"queued": "muted", "preempted": "bad*"}
"""The other phases have the sequence's hue."""
_PAINTED: tuple[SequencePhase, ...] = ("decode", "queued", "prefill", "preempted")
"""The order of painting: later phases in this list are painted over earlier ones."""
_WIDEST = 8
"""Columns of a step, at most."""
_DEEPEST = 4
"""Maximum number of indentations of a forked beam, so that its name still fits."""


class Axis(NamedTuple):
    first: int
    """The first step of the first cell; a multiple of `steps_per_cell`, except in a single cell."""
    steps_per_cell: int
    width: int
    """Number of cells."""
    columns: int = 0
    """Columns of the screen for all cells."""
    indent: int = 0
    """Columns before the first cell."""

    @classmethod
    def over(cls, first: int, last: int, width: int) -> "Axis":
        """An axis for steps `first` to `last` in at most `width` cells."""
        if width < 2:
            return cls(first, last - first + 1, width)
        steps_per_cell = max(-(-(last - first + 1) // width), 1)
        # The start is rounded down to a multiple, which can require one more cell.
        while last // steps_per_cell - first // steps_per_cell >= width:
            steps_per_cell += 1
        return cls(first // steps_per_cell * steps_per_cell, steps_per_cell, width)

    def cell(self, step: int) -> int:
        """The cell of a step; negative, or `width` or more, if the step is off the axis."""
        return (step - self.first) // self.steps_per_cell

    def stretched(self, last: int) -> "Axis":
        """The same axis over all its columns: with room for a few more steps than `last`.

        So the scale changes four times while the number of steps doubles, and not in each step.
        """
        used = self.cell(last) + 1
        part = 1 << max(used.bit_length() - 3, 0)
        cells = min(-(-used // part) * part, self.width)
        return self._replace(width=cells, columns=min(self.width, cells * _WIDEST))

    def column(self, cell: int) -> int:
        """The first column of a cell."""
        return cell * self.columns // self.width


class Timelines(Panel):
    HELP_TITLE = "Requests"
    HELP_TEXT = (
        "One bar per request, one or more steps per cell or cells per step: ░ waits in the"
        " queue, ▓ prefill, █ decode, and a gap with ▁ while it is preempted. Before the bar:"
        " its state, the time to its first token and the time between tokens; in steps on a virtual"
        " clock, as in lessons. A sample or beam"
        " is indented under its parent; when the parent is pruned, it loses one indentation."
    )
    KEYS = ("engine.tokens", "engine.abort")

    def targets(self) -> list[Target]:
        """All remembered sequences, even in hidden rows: the rows scroll with the cursor."""
        return [to_sequence(record.seq_id) for record in in_order(self._model)]

    def target_at(self, x: int, y: int) -> Target | None:
        """The row's sequence. A bar has no target of its own: in reverse, it would look empty."""
        if not 0 <= y < len(self._lines) or not self._lines[y]:
            return None
        return next(iter(targets_of(self._lines[max(y - 1, 0) : y + 1])[::-1]), None)

    def title(self, model: DashboardModel, width: int) -> str:
        return "Requests  ░ queued  ▓ prefill  █ decode  ▁ preempted" if width >= 60 else "Requests"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        records = in_order(model)
        if not records:
            return [line(width, ("no request yet", "faint"))]
        chosen = self.selection.seq_id
        head = height >= 3
        start, shown = _window(model, records, chosen, height - head)
        names = [_name(model, record) for record in shown]
        name_width = min(max(map(cell_len, names)), 16 if width >= 100 else 9)
        pairs = zip(shown, names, strict=True)
        rows = [_facts(model, record, name, name_width, width) for record, name in pairs]
        bar_width = max(min(row.room for row in rows), 0)
        first = min(record.phases[0].step for record in shown)
        # If a visible sequence is still live, the axis ends at the current step.
        last = max(
            record.end.step if record.end else max(model.fold.step, record.phases[-1].step)
            for record in shown
        )
        is_high = head + 2 * len(records) <= height
        axis = Axis.over(first, last, bar_width).stretched(last)
        axis = axis._replace(indent=width - bar_width)
        part = f"{start + 1:,}-{start + len(shown):,} of {len(records):,} ↑↓"
        part = part if len(shown) < len(records) else ""
        lines = [_head(model, axis, last, part, width)] if head else []
        for record, row in zip(shown, rows, strict=True):
            bar = _bar(model, record, axis)
            lines.append((*row.line(), *bar))
            if is_high:
                under = [(text.replace(SIGNS["preempted"], " "), style) for text, style in bar]
                lines.append(((" " * axis.indent, "text"), *under))
        return lines[:height]


def in_order(model: DashboardModel) -> list[SequenceRecord]:
    """All records in order of arrival, grouped by request. Forked sequences follow their parent."""
    requests: dict[str, list[SequenceRecord]] = {}
    for record in model.ledger.sequences.values():
        requests.setdefault(record.request.request_id, []).append(record)
    return [record for group in requests.values() for record in _below(group, None)]


def _below(group: list[SequenceRecord], parent: str | None) -> Iterator[SequenceRecord]:
    """Yield the sequences forked from `parent`, each followed by its own forks."""
    for record in group:
        if record.parent == parent:
            yield record
            yield from _below(group, record.seq_id)


def _window(
    model: DashboardModel, records: list[SequenceRecord], chosen: str | None, room: int
) -> tuple[int, list[SequenceRecord]]:
    """The index of the first row, and the rows.

    The rows are where running and waiting sequences meet, or as near as the selected one permits.
    """
    room = max(room, 1)
    if len(records) <= room:
        return 0, records
    ids = [record.seq_id for record in records]
    begun = [at for at, record in enumerate(records) if record.phase != "queued"]
    start = (begun[-1] + 1 if begun else 0) + room // 3 - room
    start = min(max(start, 0), len(records) - room)
    if chosen in ids:
        at = ids.index(chosen)
        start = min(max(start, at - room + 1), at)
    return start, records[start : start + room]


def _name(model: DashboardModel, record: SequenceRecord) -> str:
    """The sequence's name, indented once for each ancestor that still has a row."""
    depth, parent = 0, record.parent
    while parent is not None:
        depth, parent = depth + 1, model.ledger.sequences[parent].parent
    indent = f"{' ' * (min(depth, _DEEPEST) - 1)}└" if depth else ""
    return indent + short_name(record.seq_id)


def state_of(record: SequenceRecord) -> tuple[str, str]:
    if record.end is not None:
        return REASONS.get(record.end.reason, ("ended", "muted"))
    styles = {"queued": "warn", "prefill": "accent", "decode": "good", "preempted": "bad"}
    return record.phase, styles[record.phase]


def _facts(
    model: DashboardModel, record: SequenceRecord, name: str, name_width: int, width: int
) -> Row:
    letter, target = model.letter(record.seq_id), to_sequence(record.seq_id)
    row = Row(width).put(f"{letter or ' '} ", f"{model.hue(letter)}*", target=target)
    row.put(name, "text", name_width, target).put(" ")
    row.put(state_of(record)[0], state_of(record)[1], 10, target)
    if width >= 56:
        pace = model.pace
        row.put(f"{pace.shown(pace.first_token(record)):>6} ", "text")
        row.put(f"{pace.shown(pace.later_tokens(record)):>6}  ", "text")
    return row


def _head(model: DashboardModel, axis: Axis, last: int, part: str, width: int) -> Line:
    """The row above the timelines. part: which rows are visible; empty if all of them are."""
    row = Row(width)
    if width >= 56:
        row.put(part, "warn", axis.indent - 15).put(" first   each  ", "muted")
    else:
        row.put(part, "warn", axis.indent)
    per_cell = axis.steps_per_cell * axis.width / max(axis.columns, 1)  # as they are drawn
    scale = f", {per_cell:,.1f}".removesuffix(".0") + " per cell" if per_cell > 1 else ""
    now = f"; now{model.pace.moment(model.fold.t)}" if model.pace.is_timed else ""
    return row.put(f"steps {axis.first:,} to {last:,}{scale}{now}", "muted").line()


def _bar(model: DashboardModel, record: SequenceRecord, axis: Axis) -> list[Span]:
    hue = model.hue(model.letter(record.seq_id))
    cells = enumerate(phase_cells(record, axis, model.fold.step))
    bar = []
    for phase, run in groupby(cells, key=itemgetter(1)):
        (first, _), *others = run
        num_columns = axis.column(first + len(others) + 1) - axis.column(first)
        bar.append((SIGNS.get(phase, " ") * num_columns, _STYLES.get(phase, hue)))
    return bar


def phase_cells(record: SequenceRecord, axis: Axis, now: int) -> list[SequencePhase | None]:
    """The phase in each cell; None before the sequence's arrival, after its end and after `now`."""
    end = record.end.step if record.end else max(now, record.phases[-1].step)
    lasts = [*(after.step - 1 for after in record.phases[1:]), end]
    cells: list[SequencePhase | None] = [None] * axis.width
    for painted in _PAINTED:
        for start, last in zip(record.phases, lasts, strict=True):
            # Skip a phase if the next one began in the same step.
            if start.phase == painted and start.step <= last:
                first, after = max(axis.cell(start.step), 0), min(axis.cell(last) + 1, axis.width)
                cells[first:after] = [painted] * max(after - first, 0)
    return cells
