"""Token budget: how the last step's tokens were distributed, and why some were not used."""

from bisect import bisect_right
from itertools import accumulate, groupby

from minivllm.events.state import ScheduledState
from minivllm.text import plural, short_name
from minivllm.tui.draw.drafts import DRAFT_STYLE
from minivllm.tui.draw.lines import Line, Row, first_that_fits, line, packed, text_of
from minivllm.tui.draw.selection import sequence as to_sequence
from minivllm.tui.draw.selection import step as to_step
from minivllm.tui.state.decisions import deferral
from minivllm.tui.state.histories import Share
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.steps.bars import DRAFT_SIGNS, spark

_ROOM_FOR_POSITIONS = 60


class Budget(Panel):
    HELP_TITLE = "Token budget"
    HELP_TEXT = (
        "The whole bar is the maximum number of tokens in one step. Each part has the letter of the"
        " sequence that got it (+ where several share a cell). A decode takes one token; a prefill,"
        " in reverse, takes a chunk; drafts (?, or ! if a grammar forces them) take what is left."
        " Below: the sums, why some of the budget was not used, and the usage of the last steps."
    )

    def title(self, model: DashboardModel, width: int) -> str:
        used, budget = _used(model), _budget(model)
        cell = _tokens_per_cell(budget, width, _bar_rows(budget, width, self.content_size.height))
        scale = f", {cell} per cell" if cell > 1 else ""
        return f"Token budget  {used:,} of {budget:,}{scale}"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        budget, used = _budget(model), _used(model)
        drafts = sum(len(item.draft_token_ids) for item in model.fold.scheduled)
        decode = sum(item.num_tokens for item in model.fold.scheduled if item.kind == "decode")
        unused = budget - used
        sums = Row(width).put("decode ", "muted").put(f"{decode - drafts:,}", "text*")
        if drafts:
            sums.put("  drafts ", "muted").put(f"{drafts:,}", DRAFT_STYLE)
        sums.put("  prefill ", "muted")
        sums.put(f"{used - decode:,}", "text*").put("  unused ", "muted")
        sums.put(f"{unused:,}", "text*")
        lines = budget_bar(model, width, _bar_rows(budget, width, height))
        if sums.room >= len("  + several") and any("+" in text_of(row) for row in lines):
            sums.put("  + ", "text*").put("several", "muted")
        why = _why_unused(model, unused)
        short = why.removeprefix("unused: ")
        lines += [sums.line(), first_that_fits(width, ((why, "muted"),), ((short, "muted"),))]
        if height > len(lines):
            row = Row(width).put("last steps ", "muted")
            for record in model.steps.records[-row.room :] if row.room else ():
                row.put(spark(record), "accent", target=to_step(record.step))
            lines.append(row.line())
        if height > len(lines):
            lines += _shares(model, width, height - len(lines))
        return lines[:height]


def _budget(model: DashboardModel) -> int:
    """The last step's budget; before the first step, the configured budget."""
    return model.fold.budget or model.header.max_num_batched_tokens


def _used(model: DashboardModel) -> int:
    return sum(item.num_tokens for item in model.fold.scheduled)


def _bar_rows(budget: int, width: int, height: int) -> int:
    """Number of rows for the bar: if there is room, enough for one token per cell."""
    most = 1 if height < 4 else 2 if height < 9 else 4
    return max(min(-(-budget // max(width, 1)), most), 1)


def _tokens_per_cell(budget: int, width: int, rows: int) -> int:
    return -(-budget // max(width * rows, 1))


def _shares_of_step(model: DashboardModel) -> list[Share]:
    """In the order of planning: drafts get what all other tokens leave."""
    items, step = model.fold.scheduled, model.fold.step
    shares = [
        Share(item.seq_id, item.kind, item.num_tokens - len(item.draft_token_ids)) for item in items
    ]
    return shares + [
        Share(
            item.seq_id,
            "forced" if model.drafts.are_forced(item.seq_id, step) else "draft",
            len(item.draft_token_ids),
        )
        for item in items
        if item.draft_token_ids
    ]


def bar_cells(items: list[Share], budget: int, tokens_per_cell: int) -> list[Share | str]:
    """The content of each cell of the bar: an item, `+` for several items, `·` for unused tokens.

    A cell counts as used if at least half of its tokens are used; the first cell also if anything
    ran.
    """
    ends = list(accumulate(item.num_tokens for item in items))
    used = ends[-1] if ends else 0
    cells: list[Share | str] = []
    for first in range(0, budget, tokens_per_cell):
        after = min(first + tokens_per_cell, used)
        if 2 * (after - first) < tokens_per_cell and not (first == 0 < used):
            cells.append("·")
            continue
        begin, end = bisect_right(ends, first), bisect_right(ends, after - 1)
        cells.append(items[begin] if begin == end else "+")
    return cells


def budget_bar(model: DashboardModel, width: int, rows: int) -> list[Line]:
    """The budget of the step in at most `rows` rows, with the letters of the sequences."""
    budget = _budget(model)
    cells = bar_cells(_shares_of_step(model), budget, _tokens_per_cell(budget, width, rows))
    return [
        _bar_row(model, cells[start : start + width], width)
        for start in range(0, len(cells), width)
    ]


def _bar_row(model: DashboardModel, cells: list[Share | str], width: int) -> Line:
    row = Row(width)
    for cell, run in groupby(cells):
        length = len(list(run))
        if isinstance(cell, str):
            row.put(cell * length, "faint" if cell == "·" else "text*")
        elif cell.kind in DRAFT_SIGNS:
            sign, style = DRAFT_SIGNS[cell.kind]
            row.put(sign * length, style, target=to_sequence(cell.seq_id))
        else:
            letter = model.letter(cell.seq_id) or "?"
            style = model.hue(letter) + ("!" if cell.kind == "prefill" else "*")
            row.put(letter * length, style, target=to_sequence(cell.seq_id))
    return row.line()


def _why_unused(model: DashboardModel, unused: int) -> str:
    fold = model.fold
    if unused == 0:
        return "all used"
    if _may_give_more(model):
        return f"step {fold.step:,} is in progress"
    if not fold.waiting:
        return "unused: none waiting" if fold.scheduled else "nothing to compute"
    first = fold.waiting[model.considered()]
    deferred = fold.sequences[first].deferred
    if deferred is None and fold.step == 0:
        return f"no step yet: {short_name(first)} waits for the first"
    if deferred is None:
        return f"unused: {short_name(first)} arrived after the plan"
    return f"unused: {short_name(first)} waits, {deferral(*deferred, model.max_num_seqs)}"


def _may_give_more(model: DashboardModel) -> bool:
    """Whether the step may schedule more: none was deferred, and a sequence still lacks tokens."""
    fold, current = model.fold, model.steps.current
    if current is None or current.deferred is not None:
        return False
    served = {item.seq_id for item in fold.scheduled}
    running = (fold.sequences[seq_id] for seq_id in fold.running if seq_id not in served)
    return bool(fold.waiting) or any(
        sequence.num_computed_tokens < sequence.num_tokens for sequence in running
    )


def _shares(model: DashboardModel, width: int, height: int) -> list[Line]:
    """The largest shares with their positions, and how many more there are."""
    shares = []
    for item in sorted(model.fold.scheduled, key=lambda item: -item.num_tokens):
        letter, target = model.letter(item.seq_id), to_sequence(item.seq_id)
        first, last = item.num_computed_tokens, item.num_computed_tokens + item.num_tokens - 1
        where = f", position {first:,}" if first == last else f", positions {first:,} to {last:,}"
        where = f"{where if width >= _ROOM_FOR_POSITIONS else ''}{_drafts(item)}"
        words = f"{item.kind} {item.num_tokens:,}{where}"
        name = (f"{letter or '?'} {short_name(item.seq_id)} ", f"{model.hue(letter)}*", target)
        shares.append((name, (words, "muted")))
    if len(shares) <= height:
        return [line(width, *share) for share in shares]
    return packed(shares, width, height, gap="   ")[:height]


def _drafts(item: ScheduledState) -> str:
    drafts = plural(len(item.draft_token_ids), "draft") if item.draft_token_ids else ""
    right = "" if item.num_accepted is None else f", {item.num_accepted} right"
    return f", {drafts}{right}" if drafts else ""
