"""Running and waiting: all sequences in the order in which the scheduler visits them.

Running sequences come first, in order of admission. Each takes its tokens from the budget that
earlier sequences have left. The scheduler admits waiting sequences from the front of the queue and
stops at the first one that does not fit. With fcfs, a preempted sequence goes from the end of the
running list to the front of the queue.
"""

from rich.cells import cell_len

from minivllm.events.state import ScheduledState
from minivllm.text import short_name
from minivllm.tui.draw.lines import Line, Row, flow, line, text_of
from minivllm.tui.draw.selection import Target
from minivllm.tui.draw.selection import sequence as to_sequence
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.requests.waiting import waiting_row


class BatchOrder(Panel):
    HELP_TITLE = "Running and waiting"
    HELP_TEXT = (
        "All sequences in the order in which the scheduler considers them: first the"
        " running ones, with the tokens that each got in the last step and its progress,"
        " then the queue. The scheduler considers only the first sequence in the queue, so"
        " the reason for waiting is about that sequence."
    )
    RULE = "minivllm.core.scheduler:Scheduler.schedule"

    def targets(self) -> list[Target]:
        """All sequences, even in hidden rows: the rows scroll with the cursor."""
        if self._model is None:
            return []
        return [
            to_sequence(seq_id) for seq_id in (*self._model.fold.running, *self._model.fold.waiting)
        ]

    def title(self, model: DashboardModel, width: int) -> str:
        return f"Running {len(model.fold.running)}, waiting {len(model.fold.waiting)}"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        running, waiting = model.fold.running, model.fold.waiting
        if not running and not waiting:
            return [Row(width).put("none running, none waiting", "faint").line()]
        top, bottom = _rooms(len(running), len(waiting), height)
        chosen = None if self.context is None else self.context.selection.seq_id
        scheduled = {item.seq_id: item for item in model.fold.scheduled}
        lines = [
            _running_row(model, running[at], scheduled.get(running[at]), width)
            for at in _window(running, chosen, top)
        ]
        if top and bottom and height > top + bottom:
            lines.append(Row(width).put("─" * width, "faint").line())
        hidden = len(running) + len(waiting) - top - bottom
        has_spare = len(lines) + bottom + (hidden > 0) < height
        lines += _waiting_rows(model, _window(waiting, chosen, bottom), width, wraps=has_spare)
        if hidden and height > len(lines):
            lines.append(Row(width).put(f"+ {hidden:,} more", "muted").line())
        return lines[:height]


def _rooms(running: int, waiting: int, height: int) -> tuple[int, int]:
    """Rows for running and for waiting sequences, beside the line and the count of hidden rows."""
    rule = 1 if running and waiting and height > 2 else 0
    room = height - rule
    if running + waiting > room:
        room = max(room - 1, 1)
    top = min(running, max(room - waiting, (room + 1) // 2))
    return top, min(waiting, room - top)


def _window(seq_ids: list[str], chosen: str | None, room: int) -> range:
    at = seq_ids.index(chosen) if chosen in seq_ids else 0
    start = min(max(at - room // 2, 0), max(len(seq_ids) - room, 0)) if at >= room else 0
    return range(start, min(start + room, len(seq_ids)))


def _running_row(
    model: DashboardModel, seq_id: str, item: ScheduledState | None, width: int
) -> Line:
    sequence, letter, target = (
        model.fold.sequences[seq_id],
        model.letter(seq_id),
        to_sequence(seq_id),
    )
    row = Row(width).put(f"{letter or '?'} ", f"{model.hue(letter)}*", target=target)
    row.put(short_name(seq_id), "text*", 14 if width >= 48 else 8, target).put(" ")
    if item is None:
        row.put("no tokens yet " if model.steps.current else "no tokens     ", "warn")
    else:
        row.put(f"{item.kind:<7} ", "accent" if item.kind == "prefill" else "good").put(
            f"+{item.num_tokens:<5,}", "text*"
        )
    row.put(f" {sequence.num_computed_tokens:,}/{model.num_tokens_planned(seq_id):,}", "muted")
    return row.put(" computed" if row.room >= 9 else "", "muted").line()


def _waiting_rows(
    model: DashboardModel, positions: range, width: int, *, wraps: bool
) -> list[Line]:
    """Rows of the queue, with the most detail for which every reason still fits.

    wraps: whether a long reason of the first sequence may continue in a second row
    """
    for detail in (2, 1, 0):
        rows = [
            waiting_row(model, position, 14 if width >= 48 else 8, detail) for position in positions
        ]
        if all(cell_len(text_of(row)) <= width for row in rows):
            break
    lines = [line(width, *row) for row in rows]
    return [*flow(rows[0], width, indent=2), *lines[1:]] if wraps and rows else lines
