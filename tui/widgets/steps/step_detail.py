"""Panel for one step: the sentence of the key w, its times, and its tokens per sequence.

For old steps only sums are known; the panel says so.
"""

from minivllm.text import plural, short_name
from minivllm.tui.answers.why import why_step
from minivllm.tui.draw.drafts import DRAFT_STYLE
from minivllm.tui.draw.lines import Line, Row, line, packed, wrap
from minivllm.tui.draw.selection import sequence as to_sequence
from minivllm.tui.state.histories import SHARES_KEPT, StepRecord
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel

_PHASES = ("schedule", "prepare", "model", "sample")


class StepDetail(Panel):
    HELP_TITLE = "Chosen step"
    HELP_TEXT = (
        "The step that is selected in the history, or else the last one: its budget, why"
        " part of the budget was left over, preemptions and their reasons, blocks hit and"
        " evicted, the time it took, and the tokens of each sequence. To see why a sequence"
        " got this many tokens, select it and press w."
    )
    RULE = "minivllm.core.scheduler:Scheduler.schedule"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        records, chosen = model.steps.records, self.selection.step
        if chosen is None and not records:
            return [line(width, ("no step has ended yet", "faint"))]
        step = records[-1].step if chosen is None else chosen
        record = next((record for record in reversed(records) if record.step == step), None)
        style = "muted" if record is None else "warn" if record.preempted else "text"
        said = [line(width, (row, style)) for row in wrap(why_step(model, step), width)]
        if record is None:
            return said[:height]
        lines = [*said, *(_times(record, width) if any(record.seconds) else ())]
        if record.num_hits or record.num_evicted:
            good = "good" if record.num_hits else "faint"
            hits = (f"{plural(record.num_hits, 'block')} hit", good)
            style = "warn" if record.num_evicted else "faint"
            lines.append(line(width, hits, (f", {record.num_evicted:,} evicted", style)))
        return (lines + _shares(model, record, width, height - len(lines)))[:height]


def _times(record: StepRecord, width: int) -> list[Line]:
    """The step's total time, then its parts, longest first, in as many rows as they need."""
    parts = sorted(zip(record.seconds, _PHASES, strict=True), reverse=True)
    items = (((f"{name} ", "muted"), (f"{part * 1000:,.1f}", "text")) for part, name in parts)
    total = f"{sum(record.seconds) * 1000:,.1f} ms  "
    return packed(items, width, len(parts), head=((total, "text*"),), gap="  ")


def _shares(model: DashboardModel, record: StepRecord, width: int, height: int) -> list[Line]:
    if not record.shares:
        words = f"tokens per sequence are kept for {SHARES_KEPT} steps" if record.used else ""
        return [line(width, (words, "faint"))]
    shown = record.shares if len(record.shares) <= height else record.shares[: max(height - 1, 0)]
    lines = []
    for seq_id, kind, num_tokens in shown:
        letter, target = model.letter(seq_id), to_sequence(seq_id)
        row = Row(width).put(f"{letter or '?'} ", f"{model.hue(letter)}*", target=target)
        row.put(short_name(seq_id), "text", 14, target)
        style = DRAFT_STYLE if kind in ("draft", "forced") else "text"
        lines.append(row.put(f" {kind:<7} {num_tokens:>6,}", style).line())
    if more := len(record.shares) - len(shown):
        lines.append(line(width, (f"+ {plural(more, 'more sequence')}", "muted")))
    return lines
