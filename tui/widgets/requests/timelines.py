"""Timelines: one row per sequence, from arrival to end, over the steps of the engine.

    ░░▓▓aaaa××▓aaa     queued, prefill, decode (its letter), preempted, ...

The axis is in steps, because on an axis in seconds a slow step would look like a long wait. If a
cell stands for several steps, it shows the rarest phase: otherwise one queued step would vanish
behind a hundred decodes. The steps of a cell change only with the scale, so cells do not move.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from rich.cells import cell_len

from minivllm.text import short_name
from minivllm.tui.draw.lines import Line, Row
from minivllm.tui.draw.selection import Target
from minivllm.tui.draw.selection import sequence as to_sequence
from minivllm.tui.state.lives import Life, LifePhase
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.requests.finished import REASONS

SIGNS: dict[LifePhase, str] = {"queued": "░", "prefill": "▓", "preempted": "×"}
"""Signs of the phases. A decode is drawn as the sequence's letter, or as ▄ without a letter."""
_STYLES: dict[LifePhase, str] = {"queued": "muted", "prefill": "accent", "preempted": "bad*"}
_PAINTED: tuple[LifePhase, ...] = ("decode", "queued", "prefill", "preempted")
"""The order of painting: later phases in this list are painted over earlier ones."""
_DEEPEST = 4
"""Maximum number of indentations of a forked beam, so that its name still fits."""


class Axis(NamedTuple):
    first: int
    """The first step of the first cell; a multiple of `steps_per_cell`, except in a single cell."""
    steps_per_cell: int
    width: int

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
        """The cell of a step. It is negative, or `width` or more, if the step is off the axis."""
        return (step - self.first) // self.steps_per_cell


class Timelines(Panel):
    HELP_TITLE = "Requests"
    HELP_TEXT = (
        "One row per request, one cell for one or more steps: ░ waits in the queue, ▓"
        " prefill, its letter for decode, × preempted. Then its state, the time to its first"
        " token and the time between tokens. A sample or beam is indented under its parent;"
        " when the parent is pruned, it loses one indentation."
    )

    def targets(self) -> list[Target]:
        """All remembered sequences, even in hidden rows: the rows scroll with the cursor."""
        if self._model is None:
            return []
        return [to_sequence(life.seq_id) for life in in_order(self._model)]

    def title(self, model: DashboardModel, width: int) -> str:
        return "Requests  ░ queued  ▓ prefill  a decode  × preempted" if width >= 60 else "Requests"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        lives = in_order(model)
        if not lives:
            return [Row(width).put("no request yet", "faint").line()]
        chosen = None if self.context is None else self.context.selection.seq_id
        head = height >= 3
        start, shown = _window(model, lives, chosen, height - head)
        names = [_name(model, life) for life in shown]
        name_width = min(max(map(cell_len, names)), 16 if width >= 100 else 9)
        rows = [
            _facts(model, life, name, name_width, width)
            for life, name in zip(shown, names, strict=True)
        ]
        bar_width = max(min(row.room for row in rows), 0)
        first = min(life.phases[0][0] for life in shown)
        # If a visible sequence is still live, the axis ends at the current step.
        last = max(
            life.end[0] if life.end else max(model.fold.step, life.phases[-1][0]) for life in shown
        )
        axis = Axis.over(first, last, bar_width)
        part = (
            f"{start + 1:,}-{start + len(shown):,} of {len(lives):,} ↑↓"
            if len(shown) < len(lives)
            else ""
        )
        lines = [_head(model, axis, last, part, width - bar_width, width)] if head else []
        for life, row in zip(shown, rows, strict=True):
            _put_bar(row, model, life, axis)
            lines.append(row.line())
        return lines[:height]


def in_order(model: DashboardModel) -> list[Life]:
    """All lives in order of arrival, grouped by request. Forked sequences follow their parent."""
    requests: dict[str, list[Life]] = {}
    for life in model.lives.by_sequence.values():
        requests.setdefault(life.request_id, []).append(life)
    return [life for group in requests.values() for life in _below(group, None)]


def _below(group: list[Life], parent: str | None) -> Iterator[Life]:
    """Yield the sequences forked from `parent`, each followed by its own forks."""
    for life in group:
        if life.parent == parent:
            yield life
            yield from _below(group, life.seq_id)


def _window(
    model: DashboardModel, lives: list[Life], chosen: str | None, room: int
) -> tuple[int, list[Life]]:
    """The index of the first row, and the rows.

    The rows are around the selected sequence, or else where running and waiting sequences meet.
    """
    room = max(room, 1)
    if len(lives) <= room:
        return 0, lives
    ids = [life.seq_id for life in lives]
    if chosen in ids:
        start = ids.index(chosen) - room // 2
    else:
        begun = [at for at, life in enumerate(lives) if life.phases[-1][2] != "queued"]
        start = (begun[-1] + 1 if begun else 0) + room // 3 - room
    start = min(max(start, 0), len(lives) - room)
    return start, lives[start : start + room]


def _name(model: DashboardModel, life: Life) -> str:
    """The sequence's name, indented once for each ancestor that still has a row."""
    depth, parent = 0, life.parent
    while parent is not None:
        depth, parent = depth + 1, model.lives.by_sequence[parent].parent
    return (
        f"{' ' * (min(depth, _DEEPEST) - 1)}└{short_name(life.seq_id)}"
        if depth
        else short_name(life.seq_id)
    )


def state_of(life: Life) -> tuple[str, str]:
    if life.end is not None:
        return REASONS.get(life.end[2], ("ended", "muted"))
    phase = life.phases[-1][2]
    return (
        phase,
        {"queued": "warn", "prefill": "accent", "decode": "good", "preempted": "bad"}[phase],
    )


def duration(seconds: float | None) -> str:
    """A duration in at most six characters."""
    if seconds is None:
        return ""
    if 0 < seconds < 0.00995:  # from 9.95 ms on, this would print 10.0ms
        return f"{seconds * 1000:.1f}ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 1000 else f"{seconds / 60:.0f}min"


def first_token_after(life: Life) -> float | None:
    """Seconds to the first token; None for a fork, because its request waited before the fork."""
    return None if life.phases[0][2] == "decode" else life.time_to_first_token


def _facts(model: DashboardModel, life: Life, name: str, name_width: int, width: int) -> Row:
    letter, target = model.letter(life.seq_id), to_sequence(life.seq_id)
    row = Row(width).put(f"{letter or ' '} ", f"{model.hue(letter)}*", target=target)
    row.put(name, "text", name_width, target).put(" ")
    row.put(state_of(life)[0], state_of(life)[1], 10, target)
    if width >= 56:
        row.put(f"{duration(first_token_after(life)):>6} ", "text")
        row.put(f"{duration(life.time_per_output_token):>6}  ", "text")
    return row


def _head(model: DashboardModel, axis: Axis, last: int, part: str, indent: int, width: int) -> Line:
    """The row above the timelines. part: which rows are visible; empty if all of them are."""
    row = Row(width)
    if width >= 56:
        row.put(part, "warn", indent - 15).put(" first   each  ", "muted")
    else:
        row.put(part, "warn", indent)
    scale = f", {axis.steps_per_cell:,} per cell" if axis.steps_per_cell > 1 else ""
    seconds = model.fold.t - model.header.mono
    return row.put(f"steps {axis.first:,} to {last:,}{scale}; now {seconds:,.2f} s", "muted").line()


def _put_bar(row: Row, model: DashboardModel, life: Life, axis: Axis) -> None:
    letter, target = model.letter(life.seq_id), to_sequence(life.seq_id)
    for phase, run in groupby(phase_cells(life, axis, model.fold.step)):
        length = len(list(run))
        if phase is None:
            row.put(" " * length)
        elif phase == "decode":
            row.put((letter or "▄") * length, f"{model.hue(letter)}*", target=target)
        else:
            row.put(SIGNS[phase] * length, _STYLES[phase], target=target)


def phase_cells(life: Life, axis: Axis, now: int) -> Iterator[LifePhase | None]:
    """The phase in each cell; None before the sequence's arrival, after its end and after `now`."""
    spans = list(_spans(life, now))
    cells: list[LifePhase | None] = [None] * axis.width
    for painted in _PAINTED:
        for first, last, phase in spans:
            if phase == painted:
                start, end = max(axis.cell(first), 0), min(axis.cell(last) + 1, axis.width)
                cells[start:end] = [phase] * max(end - start, 0)
    return iter(cells)


def _spans(life: Life, now: int) -> Iterable[tuple[int, int, LifePhase]]:
    """Yield (first step, last step, phase). Skip a phase if the next one began in the same step."""
    end = life.end[0] if life.end else max(now, life.phases[-1][0])
    for number, (first, _, phase) in enumerate(life.phases):
        last = life.phases[number + 1][0] - 1 if number + 1 < len(life.phases) else end
        if last >= first:
            yield first, last, phase
