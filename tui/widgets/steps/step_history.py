"""Step history: one row per step, with its use of the budget and why part of it was left over.

The rows follow the newest step, unless a step is selected: that step stays visible.
"""

from functools import partial
from itertools import chain, groupby

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
_FEWEST_EQUAL = 3
"""Fewer equal steps keep a row each."""
_REASON_WIDTH = 34
"""Width for the reasons, so that nearly all fit."""


class StepHistory(Panel):
    HELP_TITLE = "Steps"
    HELP_TEXT = (
        "One row per step, or for several equal ones if there are many: its token budget as a bar with the letters of the sequences"
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
        groups = _folded(records, chosen, room)
        shown = _window(groups, chosen, room)
        columns = _Columns(records, shown, width)
        lines = [columns.head()] if head else []
        return [*lines, *(columns.row(model, group) for group in shown)][:height]


def _folded(records: list[StepRecord], chosen: int | None, room: int) -> list[list[StepRecord]]:
    """The steps; if they need more than `room` rows, neighbours that look the same share one."""
    if len(records) <= room:
        return [[record] for record in records]
    groups = [list(group) for _, group in groupby(records, partial(_looks, chosen))]
    split = ([group] if len(group) >= _FEWEST_EQUAL else [[it] for it in group] for group in groups)
    return list(chain.from_iterable(split))


def _looks(chosen: int | None, record: StepRecord) -> tuple:
    """What a row shows, apart from the step and its times; the selected step has its own row."""
    return (
        record.step == chosen, record.budget, record.decode_tokens, record.prefill_tokens,
        record.draft_tokens, record.num_accepted, record.num_hits, record.num_evicted,
        len(record.preempted), record.deferred,
    )  # fmt: skip


def _window(
    groups: list[list[StepRecord]], chosen: int | None, room: int
) -> list[list[StepRecord]]:
    """The newest rows; if an older step is selected, the rows around that one."""
    end = len(groups)
    if chosen is not None and groups[0][0].step <= chosen < groups[max(end - room, 0)][0].step:
        at = sum(group[-1].step < chosen for group in groups)
        end = max(at + room // 2 + 1, room)
    return groups[max(end - room, 0) : end]


class _Columns:
    def __init__(
        self, records: list[StepRecord], groups: list[list[StepRecord]], width: int
    ) -> None:
        self._width, shown = width, [group[-1] for group in groups]
        self._step = max(4, *(len(_label(group)) for group in groups))
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
        reason = max(min(left * 2 // 5, 40), min(left - 12, _REASON_WIDTH))
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

    def row(self, model: DashboardModel, group: list[StepRecord]) -> Line:
        """The row of one step, or of several equal ones."""
        record = group[-1]
        target = to_step(record.step)
        row = Row(self._width).put(f"{_label(group):>{self._step}}", "muted", target=target)
        row.put(" ")
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


def _label(group: list[StepRecord]) -> str:
    first, last = group[0].step, group[-1].step
    return f"{last:,}" if first == last else f"{first:,}–{last:,}"


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
