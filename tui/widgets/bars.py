"""Bars of past steps: how a step's token budget was split, in a row of given width.

Knows step records, and neither panels nor colours of the screen. A bar is to scale, with one exception that is the
easy thing to get wrong: in a budget of thousands the few tokens of the decodes would share a cell, and nobody could
see who got them. So everyone gets a cell of its own as long as that adds at most a third of the row to the bar; otherwise
cells with tokens of several are drawn as `+`. The numbers stand beside the bar and are exact.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from minivllm.tui.histories import StepRecord
from minivllm.tui.letters import hue
from minivllm.tui.lines import Span
from minivllm.tui.model import DashboardModel

_SPARKS = "▁▂▃▄▅▆▇█"
PREFILL, DECODE, UNUSED, SEVERAL = "▓", "▄", "·", "+"


class Part(NamedTuple):
    """Tokens of one step that went to one sequence; to nobody in particular where that is forgotten."""

    seq_id: str | None
    kind: str
    num_tokens: int


def parts_of(record: StepRecord) -> list[Part]:
    """Who got what, in the order of the plan; of a step long past only how much was decode and prefill."""
    if record.shares:
        return [Part(*share) for share in record.shares]
    parts = Part(None, "decode", record.decode_tokens), Part(None, "prefill", record.prefill_tokens)
    return [part for part in parts if part.num_tokens]


def bar_parts(parts: Sequence[Part], budget: int, width: int) -> list[Part | None]:
    """What each used cell of a bar of `width` cells stands for: a part, or None for several. The rest is unused."""
    used = sum(part.num_tokens for part in parts)
    if not used or width <= 0:
        return []
    # A cell is left empty as long as a token is.
    most = width if used >= budget else max(width - 1, 1)
    scaled = min(max(round(used * width / max(budget, 1)), 1), most)
    own = max(scaled, len(parts))
    if own > min(scaled + max(width // 3, 1), most):
        return _to_scale(parts, used, scaled)
    cells: list[Part | None] = []
    before = 0
    for part in parts:
        # Its own cell, and its share of what is left when everyone has one.
        after = before + part.num_tokens
        spare = own - len(parts)
        cells += [part] * (1 + spare * after // used - spare * before // used)
        before = after
    return cells


def _to_scale(parts: Sequence[Part], used: int, width: int) -> list[Part | None]:
    cells: list[Part | None] = [None] * width
    before = 0
    for part in parts:
        after = before + part.num_tokens
        # Only cells that lie wholly inside of the part are its own.
        first, end = -(-before * width // used), after * width // used
        cells[first:end] = [part] * max(end - first, 0)
        before = after
    return cells


def bar_spans(model: DashboardModel, record: StepRecord, width: int) -> list[Span]:
    """A step's bar in exactly `width` cells: prefills in reverse or as ▓, decodes as letters or as ▄."""
    cells = bar_parts(parts_of(record), record.budget, width)
    spans: list[Span] = []
    for part, run in groupby(cells):
        length = len(list(run))
        letter = None if part is None else model.letter(part.seq_id)
        if part is None:
            spans.append((SEVERAL * length, "text*"))
        elif letter is None:  # long past, or its letter stands for somebody else now
            spans.append(((PREFILL if part.kind == "prefill" else DECODE) * length, "muted"))
        else:
            spans.append((letter * length, hue(letter) + ("!" if part.kind == "prefill" else "*")))
    spans.append((UNUSED * (width - len(cells)), "faint"))
    return spans


def spark(record: StepRecord) -> str:
    """How much of the budget a step used, in one character."""
    return _SPARKS[min(record.used * 8 // max(record.budget, 1), 7)]
