"""Waiting: the queue, next first, and why each one is still in it."""

from minivllm.tui.decisions import deferral
from minivllm.tui.letters import hue
from minivllm.tui.lines import Line, Row
from minivllm.tui.model import DashboardModel
from minivllm.tui.text import plural, short_name
from minivllm.tui.widgets.panel import Panel


class Waiting(Panel):
    """One line a waiting sequence."""

    HELP_TITLE = "Waiting"
    HELP_TEXT = (
        "Who waits for a batch slot, next first, with the scheduler's own reason. Only the first one is looked at: if it "
        "does not fit, those behind it wait for it, so that a large request cannot be overtaken for ever."
    )

    def title(self, model: DashboardModel) -> str:
        return f"Waiting  {len(model.fold.waiting)}"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        waiting = model.fold.waiting
        if not waiting:
            return [Row(width).put("nobody waits", "faint").line()]
        shown = waiting if len(waiting) <= height else waiting[: height - 1]
        name_width = min(max(len(short_name(seq_id)) for seq_id in shown), 14)
        lines = [_waiting(model, position, width, name_width) for position in range(len(shown))]
        if len(shown) < len(waiting):
            lines.append(Row(width).put(f"+ {len(waiting) - len(shown):,} more behind", "muted").line())
        return lines


def _waiting(model: DashboardModel, position: int, width: int, name_width: int) -> Line:
    fold = model.fold
    seq_id = fold.waiting[position]
    sequence = fold.sequences[seq_id]
    letter = model.letter(seq_id)
    row = Row(width).put(f"{letter or ' '} ", f"{hue(letter)}*").put(short_name(seq_id), "text*", name_width).put(" ")
    if sequence.num_preemptions:
        row.put(f"↺{sequence.num_preemptions} preempted; ", "warn")
    return row.put(_reason(model, position), "text" if position == 0 else "muted").line()


def _reason(model: DashboardModel, position: int) -> str:
    fold = model.fold
    sequence = fold.sequences[fold.waiting[position]]
    if position > 0:
        return f"behind {short_name(fold.waiting[position - 1])}"
    if sequence.deferred is None:
        return f"new, {plural(sequence.num_tokens, 'token')}"
    return deferral(*sequence.deferred, model.header.max_num_seqs)
