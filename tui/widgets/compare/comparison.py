"""Panel that compares two recordings of one trace after the same step.

Shows the first step with different plans, one request in both recordings, and the numbers of both
with their ratio.
"""

from collections import deque
from typing import NamedTuple

from minivllm.events import types as ev
from minivllm.events.recording.recording import Recording
from minivllm.text import clean, id_ranges, plural, short_name
from minivllm.tui.draw.lines import Line, Row, Span, line
from minivllm.tui.draw.selection import sequence, step
from minivllm.tui.state.decisions import deferral
from minivllm.tui.state.histories import Share
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.time.follow import seconds_at
from minivllm.tui.time.transport import Transport
from minivllm.tui.widgets.compare.side import usage_of
from minivllm.tui.widgets.frame.panel import Panel

_CHUNK = 1000


class StepPlan(NamedTuple):
    """The number of tokens for each sequence in a step, in the order of the plan."""

    step: int
    shares: tuple[Share, ...]
    is_torn: bool = False
    """Whether the recording ends inside this step, because the engine raised or was killed."""


class Parting(NamedTuple):
    """The first step with different plans. If a recording has no such step, its plan is None."""

    step: int
    a: StepPlan | None
    b: StepPlan | None


class _Plans:
    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.plans: deque[StepPlan] = deque()
        self._index = 0
        self._step: int | None = None
        self._shares: list[Share] = []

    @property
    def has_more(self) -> bool:
        return self._index < len(self.recording)

    def read(self) -> None:
        stop = min(self._index + _CHUNK, len(self.recording))
        for event in self.recording.events(self._index, stop):
            match event:
                case ev.StepBegin():
                    self._step, self._shares = event.step, []
                case ev.StepScheduled():
                    self._shares.append(Share(event.seq_id, event.kind, event.num_tokens))
                case ev.StepEnd():
                    self.plans.append(StepPlan(event.step, tuple(self._shares)))
                    self._step = None
        self._index = stop

    def end(self) -> None:
        """Complete an unfinished step, because no more events will come."""
        if self._step is not None and not self.has_more:
            self.plans.append(StepPlan(self._step, tuple(self._shares), is_torn=True))
            self._step = None


class PlanSearch:
    def __init__(self, a: Recording, b: Recording) -> None:
        self._a, self._b = _Plans(a), _Plans(b)
        self.parting: Parting | None = None
        self.same_up_to = -1
        """The last step with equal plans; -1 before the first step."""

    @property
    def has_more(self) -> bool:
        return self.parting is None and (self._a.has_more or self._b.has_more)

    def look(self, a_ended: bool, b_ended: bool) -> None:
        """Read up to a thousand events per side. a_ended, b_ended: that recording grows no more."""
        for side, ended in ((self._a, a_ended), (self._b, b_ended)):
            if not side.plans and side.has_more:
                side.read()
            if ended:
                side.end()
        a, b = self._a.plans, self._b.plans
        while a and b:
            if a[0] != b[0]:
                step = min(a[0].step, b[0].step)
                self.parting = Parting(
                    step, *(side[0] if side[0].step == step else None for side in (a, b))
                )
                return
            self.same_up_to = a[0].step
            a.popleft()
            b.popleft()
        if b and a_ended and not self._a.has_more:
            self.parting = Parting(b[0].step, None, b[0])
        elif a and b_ended and not self._b.has_more:
            self.parting = Parting(a[0].step, a[0], None)


_ROOM_FOR_PLANS = 10
_RATIO = 7
"""Width of the ratio, in terminal cells."""


class ComparedFigure(NamedTuple):
    name: str
    a: float
    b: float
    form: str = ",.0f"

    @property
    def ratio(self) -> str:
        if self.a == self.b:
            return "="
        return "" if not self.a else f"×{self.b / self.a:.2f}"


_FIRST = {
    "requests done": "finished_requests",
    "output tokens": "generation_tokens",
    "preemptions": "num_preemptions",
}
_LAST = {
    "tokens computed": "scheduled_tokens",
    "tokens cached": "prefix_cache_hits",
    "blocks evicted": "evicted_blocks",
    "blocks copied": "copied_blocks",
    "aborted": "aborted_requests",
}
_DRAFTS = {
    "drafts": "spec_decode_num_draft_tokens",
    "drafts right": "spec_decode_num_accepted_tokens",
}
"""Name of a figure -> the counter. Without room, the last figures are left out."""


class Comparison(Panel):
    HELP_TITLE = "A and B"
    HELP_TEXT = (
        "Compares both recordings at the same place of the same step. It shows the first step with"
        " different plans, the selected request (or a running one), and the numbers of each"
        " recording. × marks B divided by A. Select a request in any panel to follow it here."
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plans: PlanSearch | None = None
        self._recordings: tuple[Recording, Recording] | None = None

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        if self.context is None or self.context.second is None:
            return []
        first, second = self.context.transport, self.context.second
        recordings = first.recording, second.recording
        if self._plans is None or self._recordings != recordings:
            self._plans, self._recordings = PlanSearch(*recordings), recordings
        self._plans.look(_has_ended(first), _has_ended(second))
        if self._plans.has_more:
            self.show_soon()
        lines = self._request(first.view, second.view, width)
        lines += _free_queues(first.view, second.view, width)
        if height >= _ROOM_FOR_PLANS:
            lines = [*_parting(self._plans, width), *lines]
        figures = self._figures(first, second)
        if height > len(lines) + len(figures) + 1:
            lines.append(())
        lines += _table(figures, width, height - len(lines))
        return lines[:height]

    def _request(self, a: DashboardModel, b: DashboardModel, width: int) -> list[Line]:
        running = [*a.fold.running, *b.fold.running]
        seq_id = self.selection.seq_id or next(iter(running), None)
        if seq_id is None:
            return [line(width, ("no request is running in A or B", "muted"))]
        name = (f"{short_name(seq_id)}  ", "text*", sequence(seq_id))
        is_race = self.context.race is not None
        found = [model.fold.sequences.get(seq_id) for model in (a, b)]
        tokens = [state.output_token_ids if state else [] for state in found]
        states = [_state_of(model, seq_id, is_race=is_race) for model in (a, b)]
        same = _same_tokens(*tokens) if all(tokens) else ("", "muted")
        return [
            line(width, (f"{label}  ", "accent*"), name, (state, "text"), *more)
            for label, state, more in zip("AB", states, ((), (same,)), strict=True)
        ]

    def _figures(self, first: Transport, second: Transport) -> list[ComparedFigure]:
        a, b = first.view, second.view
        counters = a.fold.counters, b.fold.counters
        usage = [usage_of(model) for model in (a, b)]

        def counted(fields: dict[str, str]) -> list[ComparedFigure]:
            return [
                ComparedFigure(name, *(getattr(counter, field) for counter in counters))
                for name, field in fields.items()
            ]

        is_timed = a.pace.is_timed and b.pace.is_timed
        times = [seconds_at(it) if is_timed else it.view.fold.step for it in (first, second)]
        pairs = zip(counters, times, strict=True)
        speed = [counter.generation_tokens / t if t else 0.0 for counter, t in pairs]
        waste = [100 * sample.waste if sample is not None else 0.0 for sample in usage]
        saved = [100 * sample.saved_by_sharing if sample is not None else 0.0 for sample in usage]
        unit, form = ("second", ",.2f") if is_timed else ("step", ",.0f")
        return [
            ComparedFigure(f"tokens per {unit}", *speed, ",.1f"),
            ComparedFigure(f"{unit}s", *times, form),
            *counted(_FIRST),
            ComparedFigure("waste now, %", *waste, ".1f"),
            ComparedFigure("blocks in use", a.pool_use().used, b.pool_use().used),
            ComparedFigure("blocks shared, %", *saved, ".1f"),
            ComparedFigure("running", len(a.fold.running), len(b.fold.running)),
            ComparedFigure("waiting", len(a.fold.waiting), len(b.fold.waiting)),
            *counted(_LAST),
            *counted(_DRAFTS if any(run.spec_decode_num_draft_tokens for run in counters) else {}),
        ]


def _free_queues(a: DashboardModel, b: DashboardModel, width: int) -> list[Line]:
    """Where two free queues part while the block maps are the same, which do not show them."""
    if a.fold.free_queue == b.fold.free_queue or a.fold.blocks != b.fold.blocks:
        return []
    queues = [list(model.fold.free_queue) for model in (a, b)]
    part = next((at for at, (x, y) in enumerate(zip(*queues, strict=False)) if x != y), 0)
    words = (f"free queue from place {part + 1:,} on: ", "muted")
    return [
        line(width, (f"{label}  ", "accent*"), words, (id_ranges(queue[part:]), "warn*"))
        for label, queue in zip("AB", queues, strict=True)
    ]


def _has_ended(transport: Transport) -> bool:
    return transport.source.status.state in ("recording", "ended")


def _parting(search: PlanSearch, width: int) -> list[Line]:
    found = search.parting
    if found is None:
        so_far = "so far" if search.has_more else "everywhere"
        words = f"The plans are the same {so_far}, up to step {search.same_up_to:,}."
        words = words if search.same_up_to >= 0 else "No plans yet."
        more = " Still searching …" if search.has_more else ""
        return [line(width, (words, "muted"), (more, "warn"))]
    where = (f"step {found.step:,}", "warn*", step(found.step))
    return [
        line(width, ("First different plan: ", "muted"), where),
        *(_plan(label, plan, width) for label, plan in zip("AB", found[1:], strict=True)),
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


def _state_of(model: DashboardModel, seq_id: str, *, is_race: bool) -> str:
    state = model.fold.sequences.get(seq_id)
    if state is None:
        record = model.ledger.sequences.get(seq_id)
        if record is None or record.end is None:
            return "not there"
        tokens = plural(record.num_tokens, "token")
        # A race ends each answer where the recording does, finished or not.
        how = "done" if is_race else f"finished ({clean(record.end.reason)})"
        return f"{how} in step {record.end.step:,} with {tokens}"
    tokens = plural(len(state.output_token_ids), "token")
    preempted = f", preempted {state.num_preemptions}×" if state.num_preemptions else ""
    has = f"{tokens}, {plural(len(state.block_table), 'block')}{preempted}"
    if state.slot is not None:
        doing = "prefill" if state.num_computed_tokens < state.num_tokens - 1 else "decode"
        return f"{doing} in slot {state.slot}: {has}"
    waits = f" ({deferral(*state.deferred, model.header.max_num_seqs)})" if state.deferred else ""
    return f"{'preempted, ' if state.status == 'PREEMPTED' else ''}waits{waits}: {has}"


def _same_tokens(a: list[int], b: list[int]) -> Span:
    both = min(len(a), len(b))
    parted = next((index for index in range(both) if a[index] != b[index]), None)
    if parted is None:
        return f"   the same so far: {plural(both, 'token')}", "muted"
    return f"   texts differ from token {parted + 1}", "warn"


def _table(figures: list[ComparedFigure], width: int, height: int) -> list[Line]:
    """Lay out the numbers column after column; omit numbers that do not fit."""
    if height <= 0:
        return []
    texts = [(f"{figure.a:{figure.form}}", f"{figure.b:{figure.form}}") for figure in figures]
    number = max(len(text) for pair in texts for text in pair) + 1
    names = max(len(figure.name) for figure in figures) + 1
    cell_width = names + 2 * number + 2 + _RATIO
    most = max(height - 1, 1)
    columns = max(min((width + 2) // (cell_width + 2), -(-len(figures) // most)), 1)
    heading = Row(width)
    rows = [Row(width) for _ in range(min(-(-len(figures) // columns), most))]
    for column in range(columns):
        gap = "  " * (column > 0)
        heading.put(gap).put("", width=names)
        heading.put(f"{'A':>{number}}{'B':>{number}}  {'B/A':<{_RATIO}}", "faint")
        start = column * len(rows)
        for row, figure, (a, b) in zip(rows, figures[start:], texts[start:], strict=False):
            strong, ratio = ("muted", "faint") if figure.a == figure.b else ("text*", "accent")
            row.put(gap).put(figure.name, "muted", names)
            row.put(f"{a:>{number}}{b:>{number}}  ", strong)
            row.put(f"{figure.ratio:<{_RATIO}}", ratio)
    return [row.line() for row in ([heading, *rows] if height > 1 else rows)][:height]
