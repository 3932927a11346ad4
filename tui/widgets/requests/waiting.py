"""Panel for the queue: waiting sequences, next first, with the reasons why they wait."""

from rich.cells import cell_len

from minivllm.text import fit, short_name
from minivllm.tui.draw.lines import Line, flow, line, text_of
from minivllm.tui.draw.selection import sequence as to_sequence
from minivllm.tui.state.decisions import deferral, phrase
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel


class Waiting(Panel):
    HELP_TITLE = "Waiting"
    HELP_TEXT = (
        "Requests that wait for a batch slot, next first, with the scheduler's reason. The"
        " scheduler considers only the first request. If that one does not fit, the others"
        " wait too; otherwise small requests could overtake a large one forever. Only a request"
        " whose grammar is not compiled yet, or whose blocks are being loaded, lets others pass."
    )
    KEYS = ("engine.abort",)

    def title(self, model: DashboardModel, width: int) -> str:
        return f"Waiting  {len(model.fold.waiting)}"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        waiting = model.fold.waiting
        if not waiting:
            return [line(width, ("none waiting", "faint"))]
        shown = waiting if len(waiting) <= height else waiting[: max(height - 1, 1)]
        name_width = min(max(len(short_name(seq_id)) for seq_id in shown), 14)
        for detail in (2, 1, 0):
            rows = [waiting_row(model, at, name_width, detail) for at in range(len(shown))]
            # The reason, at the end of a row, is most important: drop details until all rows fit.
            if all(cell_len(text_of(row)) <= width for row in rows):
                break
        lines = [line(width, *row) for row in rows]
        if len(lines) < height:
            lines[:1] = flow(rows[0], width, indent=2)
        if len(lines) < height and len(shown) < len(waiting):
            lines.append(line(width, (f"+ {len(waiting) - len(shown):,} more behind", "muted")))
        return lines[:height]


def waiting_row(model: DashboardModel, position: int, name_width: int, detail: int) -> Line:
    """A row of any width. detail: 2 with tokens; 1 without; 0 also shows "preempted" as a sign."""
    seq_id = model.fold.waiting[position]
    sequence = model.fold.sequences[seq_id]
    letter, target = model.letter(seq_id), to_sequence(seq_id)
    name = f"{fit(short_name(seq_id), name_width)} "
    spans = [(f"{letter or ' '} ", f"{model.hue(letter)}*", target), (name, "text*", target)]
    if detail == 2:
        spans.append((f"{sequence.num_tokens:>5,} tok  ", "muted"))
    if sequence.num_preemptions:
        spans.append((f"↺{sequence.num_preemptions} {'preempted, ' if detail else ''}", "warn"))
    return (*spans, (why_waiting(model, position), "text" if position == 0 else "muted"))


def why_waiting(model: DashboardModel, position: int) -> str:
    fold = model.fold
    sequence = fold.sequences[fold.waiting[position]]
    if position > model.considered() and sequence.slot is None:
        return phrase("queue.behind", name=short_name(fold.waiting[position - 1]))
    if sequence.slot is not None and fold.waiting[position] not in fold.loads:
        return phrase("queue.loaded")
    if sequence.deferred is None:
        return phrase("queue.again" if sequence.status == "PREEMPTED" else "queue.new")
    reason, need, _ = sequence.deferred
    if reason == "max_num_seqs" and len(fold.running) + need <= model.max_num_seqs:
        return phrase("queue.slot")
    return deferral(*sequence.deferred, model.max_num_seqs)
