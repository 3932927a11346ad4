"""Panel that compares two recordings of one trace after the same step.

Shows the first step with different plans, one request in both recordings, and the numbers of both
with their ratio.
"""

from typing import NamedTuple

from minivllm.events.recording.recording import Recording
from minivllm.text import clean, plural, short_name
from minivllm.tui.draw.lines import Line, Row, text_of
from minivllm.tui.draw.selection import sequence, step
from minivllm.tui.state.decisions import deferral
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.time.plan_search import PlanSearch, StepPlan
from minivllm.tui.time.transport import Transport
from minivllm.tui.time.usage import UsageFollower
from minivllm.tui.widgets.frame.panel import Panel

_ROOM_FOR_PLANS = 10
_RATIO = 7
"""Width of the ratio, in terminal cells."""


class ComparedFigure(NamedTuple):
    name: str
    a: float
    b: float
    form: str = ",.0f"

    @property
    def texts(self) -> tuple[str, str]:
        return f"{self.a:{self.form}}", f"{self.b:{self.form}}"

    @property
    def ratio(self) -> str:
        if self.a == self.b:
            return "="
        return "" if not self.a else f"×{self.b / self.a:.2f}"


class Comparison(Panel):
    HELP_TITLE = "A and B"
    HELP_TEXT = (
        "Compares both recordings after the same step. It shows the first step with"
        " different plans, the selected request (or a running one), and the numbers of each"
        " recording. × marks B divided by A. Select a request in any panel to follow it here."
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plans: PlanSearch | None = None
        self._recordings: tuple[Recording, Recording] | None = None
        self._usage = UsageFollower(), UsageFollower()

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        if self.context is None or self.context.second is None:
            return []
        first, second = self.context.transport, self.context.second
        recordings = first.recording, second.recording
        if self._plans is None or self._recordings != recordings:
            self._plans, self._recordings = PlanSearch(*recordings), recordings
        if self._plans.has_more or self._plans.parting is None:
            self._plans.look(_has_ended(first), _has_ended(second))
        if self._plans.has_more:
            self.show_soon()
        lines = self._request(first.view, second.view, width)
        if height >= _ROOM_FOR_PLANS:
            lines = [*_parting(self._plans, width), *lines]
        figures = self._figures(first, second)
        if height > len(lines) + len(figures) + 1:
            lines.append(())
        lines += _table(figures, width, height - len(lines))
        return lines[:height]

    def _request(self, a: DashboardModel, b: DashboardModel, width: int) -> list[Line]:
        seq_id = self.context.selection.seq_id or next(
            iter([*a.fold.running, *b.fold.running]), None
        )
        if seq_id is None:
            return [Row(width).put("no request is running in A or B", "muted").line()]
        target = sequence(seq_id)
        lines = []
        for label, model in (("A", a), ("B", b)):
            row = (
                Row(width)
                .put(f"{label}  ", "accent*")
                .put(f"{short_name(seq_id)}  ", "text*", target=target)
            )
            lines.append(row.put(_state_of(model, seq_id), "text").line())
        both = [model.fold.sequences.get(seq_id) for model in (a, b)]
        if None not in both and all(one.output_token_ids for one in both):
            lines[1] = (
                *lines[1],
                *_same_tokens(
                    *(one.output_token_ids for one in both), room=width - _cells(lines[1])
                ),
            )
        return lines

    def _figures(self, first: Transport, second: Transport) -> list[ComparedFigure]:
        a, b = first.view, second.view
        counters = a.fold.counters, b.fold.counters
        usage = self._usage[0].usage_at(first), self._usage[1].usage_at(second)

        def count(name: str, field: str) -> ComparedFigure:
            return ComparedFigure(name, *(getattr(one, field) for one in counters))

        is_timed = a.pace.is_timed and b.pace.is_timed
        times = [
            max(model.fold.t - model.header.mono, 0.0) if is_timed else model.fold.step
            for model in (a, b)
        ]
        speed = [
            one.generation_tokens / t if t else 0.0 for one, t in zip(counters, times, strict=True)
        ]
        waste = [100 * one.waste if one is not None else 0.0 for one in usage]
        saved = [100 * one.saved_by_sharing if one is not None else 0.0 for one in usage]
        drafts = (
            count("drafts", "spec_decode_num_draft_tokens"),
            count("drafts right", "spec_decode_num_accepted_tokens"),
        )
        return [
            count("output tokens", "generation_tokens"),
            count("finished", "finished_requests"),
            ComparedFigure("waste, %", *waste, ".1f"),
            count("preemptions", "num_preemptions"),
            ComparedFigure("seconds", *times, ",.2f")
            if is_timed
            else ComparedFigure("steps", *times),
            ComparedFigure(f"tokens per {'second' if is_timed else 'step'}", *speed, ",.1f"),
            count("tokens computed", "scheduled_tokens"),
            count("tokens cached", "prefix_cache_hits"),
            ComparedFigure("blocks in use", a.pool_use().used, b.pool_use().used),
            ComparedFigure("blocks shared, %", *saved, ".1f"),
            count("blocks evicted", "evicted_blocks"),
            count("blocks copied", "copied_blocks"),
            ComparedFigure("running", len(a.fold.running), len(b.fold.running)),
            ComparedFigure("waiting", len(a.fold.waiting), len(b.fold.waiting)),
            count("aborted", "aborted_requests"),
            *(drafts if any(one.spec_decode_num_draft_tokens for one in counters) else ()),
        ]


def _has_ended(transport: Transport) -> bool:
    return transport.source.status.state in ("recording", "ended")


def _parting(search: PlanSearch, width: int) -> list[Line]:
    found = search.parting
    if found is None:
        so_far = "so far" if search.has_more else "everywhere"
        words = (
            f"The plans are the same {so_far}, up to step {search.same_up_to:,}."
            if search.same_up_to >= 0
            else "No plans yet."
        )
        return [
            Row(width)
            .put(words, "muted")
            .put(" Still searching …" if search.has_more else "", "warn")
            .line()
        ]
    row = Row(width).put("First different plan: ", "muted")
    row.put(f"step {found.step:,}", "warn*", target=step(found.step))
    return [
        row.line(),
        *(_plan(label, plan, width) for label, plan in (("A", found.a), ("B", found.b))),
    ]


def _plan(label: str, plan: StepPlan | None, width: int) -> Line:
    row = Row(width).put(f"{label}  ", "accent*")
    if plan is None:
        return row.put("has no such step", "muted").line()
    ends_here = ", and the recording ends in this step" if plan.is_torn else ""
    if not plan.shares:
        return row.put("computes nothing", "muted").put(ends_here, "warn").line()
    total = sum(tokens for *_, tokens in plan.shares)
    row.put(f"{plural(total, 'token')}: ", "text")
    for number, (seq_id, kind, tokens) in enumerate(plan.shares):
        row.put(", " if number else "", "faint").put(
            f"{short_name(seq_id)} {tokens:,} ", "text", target=sequence(seq_id)
        )
        row.put(clean(kind), "muted")
    return row.put(ends_here, "warn").line()


def _state_of(model: DashboardModel, seq_id: str) -> str:
    one = model.fold.sequences.get(seq_id)
    if one is None:
        record = model.ledger.sequences.get(seq_id)
        if record is None or record.end is None:
            return "not there"
        return (
            f"finished ({clean(record.end.reason)}) in step {record.end.step:,} with"
            f" {plural(record.num_tokens, 'token')}"
        )
    tokens = (
        f"{plural(len(one.output_token_ids), 'token')}, {plural(len(one.block_table), 'block')}"
    )
    preempted = f", preempted {one.num_preemptions}×" if one.num_preemptions else ""
    if one.slot is not None:
        doing = "prefill" if one.num_computed_tokens < one.num_tokens - 1 else "decode"
        return f"{doing} in slot {one.slot}: {tokens}{preempted}"
    waits = f" ({deferral(*one.deferred, model.header.max_num_seqs)})" if one.deferred else ""
    return f"{'preempted, ' if one.status == 'PREEMPTED' else ''}waits{waits}: {tokens}{preempted}"


def _same_tokens(a: list[int], b: list[int], room: int) -> Line:
    both = min(len(a), len(b))
    parted = next((index for index in range(both) if a[index] != b[index]), None)
    words = (
        f"first {plural(both, 'token')} the same"
        if parted is None
        else f"texts differ from token {parted + 1}"
    )
    row = Row(room).put("   ")
    return (
        row.put(words, "muted" if parted is None else "warn").line()
        if room > len(words) + 3
        else ()
    )


def _cells(line: Line) -> int:
    return len(text_of(line))


def _table(figures: list[ComparedFigure], width: int, height: int) -> list[Line]:
    """Lay out the numbers column after column; omit numbers that do not fit."""
    if height <= 0:
        return []
    number = max(len(text) for figure in figures for text in figure.texts) + 1
    names = max(len(figure.name) for figure in figures) + 1
    cell_width = names + 2 * number + 2 + _RATIO
    columns = max(min((width + 2) // (cell_width + 2), -(-len(figures) // max(height - 1, 1))), 1)
    heading, rows = (
        Row(width),
        [Row(width) for _ in range(min(-(-len(figures) // columns), max(height - 1, 1)))],
    )
    for column in range(columns):
        gap = "" if column == 0 else "  "
        heading.put(gap).put("", width=names).put(
            f"{'A':>{number}}{'B':>{number}}  {'B/A':<{_RATIO}}", "faint"
        )
        for row, figure in zip(rows, figures[column * len(rows) :], strict=False):
            a, b = figure.texts
            differs = figure.a != figure.b
            row.put(gap).put(figure.name, "muted", names).put(
                f"{a:>{number}}{b:>{number}}  ", "text*" if differs else "muted"
            )
            row.put(f"{figure.ratio:<{_RATIO}}", "accent" if differs else "faint")
    return (
        [heading.line(), *(row.line() for row in rows)][:height] if height > 1 else [rows[0].line()]
    )
