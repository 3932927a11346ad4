"""Panel for one step: tokens per sequence, and deferrals and preemptions with their reasons.

For old steps only sums are known; the panel says so.
"""

from minivllm.events.types import RequestPreempted
from minivllm.text import plural, short_name
from minivllm.tui.draw.drafts import DRAFT_STYLE
from minivllm.tui.draw.lines import Line, Row, flow
from minivllm.tui.draw.selection import sequence as to_sequence
from minivllm.tui.state.decisions import cause_of_preemption, deferral
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
        chosen = self.selection.step
        record = chosen_record(model, chosen)
        if record is None:
            words = (
                "no step has ended yet"
                if chosen is None
                else f"step {chosen:,} is not in memory at this moment"
            )
            return [Row(width).put(words, "faint").line()]
        # The times come early: a low panel leaves out the last lines.
        lines = [_sums(model, record, width)]
        if record.draft_tokens:
            said = f"{plural(record.draft_tokens, 'draft')}, {record.num_accepted:,} right"
            lines.append(Row(width).put(said, DRAFT_STYLE).line())
        if any(record.seconds):
            lines += _times(record, width)
        lines += _left_over(model, record, width)
        for preemption in record.preempted:
            lines += flow(_preempted(model, preemption), width, indent=2)
        if record.num_hits or record.num_evicted:
            lines.append(_blocks(record, width))
        return (lines + _shares(model, record, width, height - len(lines)))[:height]


def chosen_record(model: DashboardModel, chosen: int | None) -> StepRecord | None:
    """The record of the selected or else the last step; None if the step is not remembered."""
    records = model.steps.records
    if chosen is None:
        return records[-1] if records else None
    return next((record for record in reversed(records) if record.step == chosen), None)


def _sums(model: DashboardModel, record: StepRecord, width: int) -> Line:
    row = (
        Row(width)
        .put(f"step {record.step:,}", "text*")
        .put(f"  {record.used:,} of {record.budget:,}: ", "text")
    )
    row.put(f"{record.decode_tokens:,} decode", "text").put(
        f", {record.prefill_tokens:,} prefill", "text"
    )
    when = f" {time}" if (time := model.pace.moment(record.t)) else ""
    return row.put(when if row.room >= len(when) else "", "muted").line()


def _left_over(model: DashboardModel, record: StepRecord, width: int) -> list[Line]:
    unused = record.budget - record.used
    if record.deferred is None:
        words = f"{unused:,} left over: none waiting" if unused else "all used, none waiting"
        return [Row(width).put(words, "muted").line()]
    seq_id, reason, need, free = record.deferred
    spans = (
        (f"{unused:,} left over, " if unused else "all used, ", "text"),
        (f"{short_name(seq_id)} waits", "warn*", to_sequence(seq_id)),
        (f": {deferral(reason, need, free, model.max_num_seqs)}", "warn"),
    )
    return flow(spans, width, indent=2)


def _preempted(model: DashboardModel, preemption: RequestPreempted) -> Line:
    """A line of any width."""
    letter = model.letter(preemption.seq_id)
    whom = (
        "itself" if preemption.victim_of == preemption.seq_id else short_name(preemption.victim_of)
    )
    cause = cause_of_preemption(preemption.need, preemption.free)
    return (
        (f"{letter or '?'} ", f"{model.hue(letter)}*"),
        (short_name(preemption.seq_id), "bad*", to_sequence(preemption.seq_id)),
        (" preempted for ", "bad"),
        (whom, "bad", to_sequence(preemption.victim_of)),
        (f", which {cause}", "bad"),
    )


def _blocks(record: StepRecord, width: int) -> Line:
    row = Row(width).put(
        f"{plural(record.num_hits, 'block')} hit", "good" if record.num_hits else "faint"
    )
    return row.put(
        f", {record.num_evicted:,} evicted", "warn" if record.num_evicted else "faint"
    ).line()


def _times(record: StepRecord, width: int) -> list[Line]:
    """The step's total time, then its parts, longest first, in as many rows as they need."""
    total = f"{sum(record.seconds) * 1000:,.1f} ms"
    rows = [Row(width).put(total, "text*")]
    for seconds, name in sorted(zip(record.seconds, _PHASES, strict=True), reverse=True):
        number = f"{seconds * 1000:,.1f}"
        if len(name) + len(number) + 3 > rows[-1].room:
            rows.append(Row(width).put("", width=len(total)))
        rows[-1].put(f"  {name} ", "muted").put(number, "text")
    return [row.line() for row in rows]


def _shares(model: DashboardModel, record: StepRecord, width: int, height: int) -> list[Line]:
    if not record.shares:
        words = f"tokens per sequence are kept for {SHARES_KEPT} steps" if record.used else ""
        return [Row(width).put(words, "faint").line()]
    shown = record.shares if len(record.shares) <= height else record.shares[: max(height - 1, 0)]
    lines = []
    for seq_id, kind, num_tokens in shown:
        letter, target = model.letter(seq_id), to_sequence(seq_id)
        row = Row(width).put(f"{letter or '?'} ", f"{model.hue(letter)}*", target=target)
        row.put(short_name(seq_id), "text", 14, target).put(f" {kind:<7} {num_tokens:>6,}", "text")
        lines.append(row.line())
    if len(shown) < len(record.shares):
        lines.append(
            Row(width)
            .put(f"+ {plural(len(record.shares) - len(shown), 'more sequence')}", "muted")
            .line()
        )
    return lines
