"""The figures of a race in words and in large digits: what is wasted, how fast it is, who waits."""

from typing import NamedTuple

from minivllm.events.kv_usage import KVUsage
from minivllm.events.types import LogHeader
from minivllm.text import short_name
from minivllm.tui.draw.digits import large_digits
from minivllm.tui.draw.lines import Line, Row, first_that_fits, line
from minivllm.tui.draw.selection import sequence
from minivllm.tui.state.decisions import deferral
from minivllm.tui.state.model import DashboardModel

_MUCH, _SOME = 0.5, 0.2
"""Waste from which its figure is red, or yellow."""
_WHOLE = 10
"""Tokens per second from which the figure has no decimals."""


class RaceFigure(NamedTuple):
    caption: str
    short: str
    """A caption for narrow columns."""
    digits: str
    unit: str = ""
    style: str = "accent*"


def large_figures(figures: list[RaceFigure], width: int, *, ascii: bool) -> list[Line]:
    """Figures side by side, each with its caption below; in ASCII, in usual digits."""
    column = width // len(figures)
    height = 1 if ascii else 3
    rows = [Row(width) for _ in range(height + 1)]
    for figure in figures:
        large = [figure.digits] if ascii else large_digits(figure.digits)
        large[-1] += f" {figure.unit}"
        caption = figure.caption if len(figure.caption) < column else figure.short
        for row, text, style in zip(
            rows, (*large, caption), (*[figure.style] * height, "muted"), strict=True
        ):
            row.put(text, style, column)
    return [row.line() for row in rows]


def waste_figure(usage: KVUsage | None, *, is_over: bool = False) -> RaceFigure:
    """is_over: nothing runs any more, so `usage` is that of the last step"""
    captions = "of allocated memory wasted", "of memory wasted"
    if is_over:
        captions = "wasted at its last step", "at its last step"
    if usage is None:
        return RaceFigure(*captions, "-")
    style = "bad*" if usage.waste >= _MUCH else "warn*" if usage.waste >= _SOME else "good*"
    return RaceFigure(*captions, f"{100 * usage.waste:.0f}", "%", style)


def speed_figure(model: DashboardModel, seconds: float) -> RaceFigure:
    """seconds: how long it took; unused on a virtual clock, where the steps count"""
    time = seconds if model.pace.is_timed else model.fold.step
    speed = model.fold.counters.generation_tokens / time if time else 0.0
    decimals = 0 if speed >= _WHOLE or not speed else 1
    words = f"tokens per {model.pace.unit}"
    return RaceFigure(f"output {words}", words, f"{speed:,.{decimals}f}" if time else "-")


def wasted(usage: KVUsage | None, header: LogHeader, width: int, *, is_over: bool = False) -> Line:
    """How much of the allocated memory holds no token, in blocks, memory and percent.

    is_over: nothing runs any more, so `usage` is that of the last step
    """
    if usage is None or not usage.allocated:
        return line(width, ("no block is allocated", "muted"))
    taken, empty = (
        slots / header.block_size for slots in (usage.allocated, usage.allocated - usage.used)
    )
    size = f"{empty * header.block_bytes / 2**20:,.2f} MiB, " if header.block_bytes else ""
    blocks = f"{empty:,.1f} of {taken:,.0f} blocks"
    amount = (f"{blocks} ({size}{usage.waste:.0%})", "text*")
    short = ("wasted at end: " if is_over else "wasted: ", "muted")
    label = ("wasted at its last step: " if is_over else "wasted: ", "muted")
    words = " were allocated, but held no token" if is_over else " are allocated, but hold no token"
    return first_that_fits(
        width,
        (label, amount, (words, "muted")),
        (label, amount, (" held no token" if is_over else " hold no token", "muted")),
        (label, amount),
        (short, (f"{blocks}, {usage.waste:.0%}", "text*")),
    )


def waiting(model: DashboardModel, width: int) -> list[Line]:
    """Who waits, and for what the first one waits: always two lines."""
    fold, names = model.fold, Row(width)
    if not fold.waiting:
        words = "nobody waits" if fold.running else "nobody runs or waits"
        return [names.put(words, "muted").line(), ()]
    names.put(f"{len(fold.waiting)} {'waits' if len(fold.waiting) == 1 else 'wait'}: ", "warn*")
    for number, seq_id in enumerate(fold.waiting):
        names.put(", " if number else "", "muted")
        names.put(short_name(seq_id), "text", target=sequence(seq_id))
    first = fold.waiting[0]
    why = fold.sequences[first].deferred
    if why is None:
        return [names.line(), ()]
    words = deferral(*why, fold.max_num_seqs)
    reason = line(width, (f"{short_name(first)} is next: ", "muted"), (words, "text"))
    return [names.line(), reason]
