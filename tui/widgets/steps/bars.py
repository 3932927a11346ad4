"""Bars of past steps: how a step's token budget was divided, in a row of given width.

    aaab····    half of the budget was used: a got most of that half, and b the rest

In a budget of thousands of tokens, all decodes would share one cell. So each sequence gets a cell
of its own if that widens the bar by at most a third of the row. Otherwise a cell with several
sequences is drawn as `+`.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby

from minivllm.tui.draw.drafts import DRAFT, DRAFT_STYLE, FORCED_SIGN, FORCED_STYLE
from minivllm.tui.draw.lines import Span
from minivllm.tui.state.histories import Share, ShareKind, StepRecord
from minivllm.tui.state.model import DashboardModel

_SPARKS = "▁▂▃▄▅▆▇█"
PREFILL, DECODE, UNUSED, SEVERAL = "▓", "▄", "·", "+"
DRAFT_SIGNS: Mapping[ShareKind, Span] = {
    "draft": (DRAFT, DRAFT_STYLE),
    "forced": (FORCED_SIGN, FORCED_STYLE),
}


def parts_of(record: StepRecord) -> list[Share]:
    """The shares in the order of the plan. Old steps have only kinds: decode, prefill, draft."""
    if shares := record.shares:
        return shares
    parts = (
        Share("", "decode", record.decode_tokens),
        Share("", "prefill", record.prefill_tokens),
        Share("", "draft", record.draft_tokens),
    )
    return [part for part in parts if part.num_tokens]


def bar_parts(parts: Sequence[Share], budget: int, width: int) -> list[Share | None]:
    """The share in each used cell of the bar; None in a cell with several shares."""
    used = sum(part.num_tokens for part in parts)
    if not used or width <= 0:
        return []
    # If any of the budget is unused, leave at least one cell empty.
    most = width if used >= budget else max(width - 1, 1)
    scaled = min(max(round(used * width / max(budget, 1)), 1), most)
    own = max(scaled, len(parts))
    if own > min(scaled + max(width // 3, 1), most):
        return _to_scale(parts, used, scaled)
    # Each share gets one cell. Shares of more than a cell divide the remaining cells.
    spare = own - len(parts)
    more_than_a_cell = [max(part.num_tokens * own - used, 0) for part in parts]
    total, cells, before = max(sum(more_than_a_cell), 1), [], 0
    for part, more in zip(parts, more_than_a_cell, strict=True):
        after = before + more
        cells += [part] * (1 + spare * after // total - spare * before // total)
        before = after
    return cells


def _to_scale(parts: Sequence[Share], used: int, width: int) -> list[Share | None]:
    cells: list[Share | None] = [None] * width
    before = 0
    for part in parts:
        after = before + part.num_tokens
        # A cell belongs to a share only if it is entirely inside the share.
        first, end = -(-before * width // used), after * width // used
        if end > first:
            cells[first:end] = [part] * (end - first)
        before = after
    return cells


def bar_spans(model: DashboardModel, record: StepRecord, width: int) -> list[Span]:
    """A step's bar in exactly `width` cells.

    Prefills are in reverse or ▓, decodes are letters or ▄, drafts ?, forced ones !.
    """
    cells = bar_parts(parts_of(record), record.budget, width)
    spans: list[Span] = []
    # Group by id(), which is cheap: all cells of a share are the same object.
    for _, run in groupby(cells, key=id):
        same = list(run)
        part, length = same[0], len(same)
        letter = None if part is None else model.letter(part.seq_id)
        if part is None:
            sign, style = SEVERAL, "text*"
        elif part.kind in DRAFT_SIGNS:
            sign, style = DRAFT_SIGNS[part.kind]
        elif letter is None:  # the step is old, or another sequence has the letter now
            sign, style = PREFILL if part.kind == "prefill" else DECODE, "muted"
        else:
            sign, style = letter, model.hue(letter) + ("!" if part.kind == "prefill" else "*")
        spans.append((sign * length, style))
    spans.append((UNUSED * (width - len(cells)), "faint"))
    return spans


def spark(record: StepRecord) -> str:
    return _SPARKS[min(record.used * 8 // max(record.budget, 1), 7)]
