"""Step history: one row per step, with its use of the budget and why part of it was left over.

The rows follow the newest step, unless a step is selected: that step stays visible.
"""

from minivllm.text import short_name
from minivllm.tui.draw.drafts import DRAFT_STYLE
from minivllm.tui.draw.lines import Line, Row, line
from minivllm.tui.draw.selection import Target
from minivllm.tui.draw.selection import step as to_step
from minivllm.tui.state.decisions import deferral
from minivllm.tui.state.histories import StepRecord
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.steps.bars import bar_spans

_NUMBERS = (("dec", 4), ("pref", 6), ("drafts", 7), ("hit", 4), ("evi", 4), ("↺", 3))
"""(heading, width) of each column of numbers. A run without drafts has no column for them."""
_TIMES = ("sched", "prep", "model", "samp")
_TIME_WIDTH = 7
_REASON_WIDTH = 30
"""Width for the reasons, so that nearly all fit."""


class StepHistory(Panel):
    HELP_TITLE = "Steps"
    HELP_TEXT = (
        "One row per step: its token budget as a bar with the letters of the sequences"
        " (prefill in reverse, + for several, ? for drafts, ! for forced ones; older steps have"
        " only ▄ decode and ▓ prefill), then the tokens of decode and prefill, right drafts of all"
        " drafts, blocks hit and evicted, and ↺ preempted sequences. Then why part of the budget"
        " was left over, and, where there"
        " is room, the milliseconds for scheduling, preparing, the model and sampling."
    )
    RULE = "minivllm.core.scheduler:Scheduler.schedule"
    NEWEST_LAST = True

    def targets(self) -> list[Target]:
        """All remembered steps, even in hidden rows: the rows scroll with the cursor."""
        return [to_step(record.step) for record in self._model.steps.records]

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        records = model.steps.records
        if not records:
            return [line(width, ("no step has ended yet", "faint"))]
        chosen = self.selection.step
        head = height >= 4
        room = max(height - head, 1)
        shown = _window(records, chosen, room)
        columns = _Columns(records, shown, width)
        lines = [columns.head()] if head else []
        return [*lines, *(columns.row(model, record) for record in shown)][:height]


def _window(records: list[StepRecord], chosen: int | None, room: int) -> list[StepRecord]:
    """The newest steps; if an older step is selected, the steps around that one."""
    end = len(records)
    if chosen is not None and records[0].step <= chosen < records[max(end - room, 0)].step:
        at = sum(record.step < chosen for record in records)
        end = max(at + room // 2 + 1, room)
    return records[max(end - room, 0) : end]


class _Columns:
    def __init__(self, records: list[StepRecord], shown: list[StepRecord], width: int) -> None:
        self._width = width
        self._step = max(len(f"{records[-1].step:,}"), 4)
        has_drafts = any(record.draft_tokens for record in records)
        self._numbers = [
            (name, size)
            for name, size in _NUMBERS
            if (width >= 44 or name in ("dec", "pref")) and (has_drafts or name != "drafts")
        ]
        fixed = self._step + 1 + sum(size for _, size in self._numbers) + 1
        self._timed = width >= 130 and any(any(record.seconds) for record in shown)
        times = len(_TIMES) * _TIME_WIDTH + 1 if self._timed else 0
        left = max(width - fixed - times, 0)
        # The reason is the longest column and may be cut. The bar needs no more cells than tokens.
        reason = max(min(left * 2 // 5, 40), min(left - 16, _REASON_WIDTH))
        self._reason = reason if left >= 36 else 0
        most = max(record.budget for record in shown)
        self._bar = min(left - self._reason, max(most, 16))

    def head(self) -> Line:
        row = Row(self._width).put(f"{'step':>{self._step}} ", "muted")
        row.put("token budget", "muted", self._bar)
        for name, size in self._numbers:
            row.put(f"{name:>{size}}", "muted")
        row.put("  ")
        for name in _TIMES if self._timed else ():
            row.put(f"{name:>{_TIME_WIDTH - 1}} ", "muted")
        if self._timed:
            row.put("ms  ", "muted")
        return row.put("left over because" if self._reason else "", "muted").line()

    def row(self, model: DashboardModel, record: StepRecord) -> Line:
        target = to_step(record.step)
        row = Row(self._width).put(f"{record.step:>{self._step},}", "muted", target=target).put(" ")
        for text, style in bar_spans(model, record, self._bar):
            row.put(text, style, target=target)
        values = {
            "dec": (f"{record.decode_tokens:,}", "text"),
            "pref": (f"{record.prefill_tokens:,}", "text"),
            "drafts": (right_of(record), DRAFT_STYLE),
            "hit": (f"{record.num_hits:,}", "good*"),
            "evi": (f"{record.num_evicted:,}", "warn*"),
            "↺": (f"{len(record.preempted):,}", "bad*"),
        }
        for name, size in self._numbers:
            value, style = values[name]
            value, style = (value, style) if value != "0" else ("·", "faint")
            row.put(f"{value:>{size}}", style, target=target)
        row.put("  ")
        for seconds in record.seconds if self._timed else ():
            row.put(f"{seconds * 1000:>{_TIME_WIDTH - 1}.1f} ", "muted")
        if self._timed:
            row.put("    ")
        if self._reason:
            row.put(*why_left_over(model, record))
        return row.line()


def right_of(record: StepRecord) -> str:
    """`3/4`: three of four drafts were right; `0` without drafts."""
    return f"{record.num_accepted:,}/{record.draft_tokens:,}" if record.draft_tokens else "0"


def why_left_over(model: DashboardModel, record: StepRecord) -> tuple[str, str]:
    if record.used >= record.budget:
        return "", "text"
    if record.deferred is None:
        return "none waiting", "faint"
    seq_id, reason, need, free = record.deferred
    return f"{short_name(seq_id)}: {deferral(reason, need, free, model.max_num_seqs)}", "warn"
