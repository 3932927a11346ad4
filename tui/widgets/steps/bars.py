"""Bars of past steps: how a step's token budget was split, in a row of given width.

Knows step records, and neither panels nor colours of the screen. A bar is to scale, with one
exception that is the easy thing to get wrong: in a budget of thousands the few tokens of the
decodes would share a cell, and nobody could see who got them. So everyone gets a cell of its own as
long as that adds at most a third of the row to the bar; otherwise cells with tokens of several are
drawn as `+`. The numbers stand beside the bar and are exact.
"""

from collections.abc import Sequence
from itertools import groupby

from minivllm.tui.draw.lines import Span
from minivllm.tui.state.histories import Share, StepRecord
from minivllm.tui.state.model import DashboardModel

_SPARKS = "▁▂▃▄▅▆▇█"
PREFILL, DECODE, UNUSED, SEVERAL = "▓", "▄", "·", "+"


def parts_of(record: StepRecord) -> list[Share]:
    """Who got what, in the order of the plan; of a step long past only how much was decode and
    prefill, of nobody.
    """
    if record.shares:
        return record.shares
    parts = Share("", "decode", record.decode_tokens), Share("", "prefill", record.prefill_tokens)
    return [part for part in parts if part.num_tokens]


def bar_parts(parts: Sequence[Share], budget: int, width: int) -> list[Share | None]:
    """What each used cell of a bar of `width` cells stands for: a part, or None for several. The
    rest is unused.
    """
    used = sum(part.num_tokens for part in parts)
    if not used or width <= 0:
        return []
    # A cell is left empty as long as a token is.
    most = width if used >= budget else max(width - 1, 1)
    scaled = min(max(round(used * width / max(budget, 1)), 1), most)
    own = max(scaled, len(parts))
    if own > min(scaled + max(width // 3, 1), most):
        return _to_scale(parts, used, scaled)
    # Who has less than a cell's worth of tokens gets one cell and no more; what is over goes to the
    # others.
    spare, more_than_a_cell = (
        own - len(parts),
        [max(part.num_tokens * own - used, 0) for part in parts],
    )
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
        # Only cells that lie wholly inside of the part are its own.
        first, end = -(-before * width // used), after * width // used
        if end > first:
            cells[first:end] = [part] * (end - first)
        before = after
    return cells


def bar_spans(model: DashboardModel, record: StepRecord, width: int) -> list[Span]:
    """A step's bar in exactly `width` cells: prefills in reverse or as ▓, decodes as letters or as
    ▄.
    """
    cells = bar_parts(parts_of(record), record.budget, width)
    spans: list[Span] = []
    # A part is one object in all its cells, and comparing identities is a good deal cheaper than
    # comparing names.
    for _, run in groupby(cells, key=id):
        same = list(run)
        part, length = same[0], len(same)
        letter = None if part is None else model.letter(part.seq_id)
        if part is None:
            spans.append((SEVERAL * length, "text*"))
        elif letter is None:  # long past, or its letter stands for somebody else now
            spans.append(((PREFILL if part.kind == "prefill" else DECODE) * length, "muted"))
        else:
            spans.append(
                (letter * length, model.hue(letter) + ("!" if part.kind == "prefill" else "*"))
            )
    spans.append((UNUSED * (width - len(cells)), "faint"))
    return spans


def spark(record: StepRecord) -> str:
    """How much of the budget a step used, in one character."""
    return _SPARKS[min(record.used * 8 // max(record.budget, 1), 7)]
