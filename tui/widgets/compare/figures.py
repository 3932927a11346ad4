"""The figures of a race in words: what is wasted, how fast it is, who waits."""

from minivllm.events.kv_usage import KVUsage
from minivllm.events.types import LogHeader
from minivllm.text import short_name
from minivllm.tui.draw.lines import Line, Row, Span, first_that_fits, line
from minivllm.tui.draw.selection import sequence
from minivllm.tui.state.decisions import deferral
from minivllm.tui.state.model import DashboardModel

_MUCH, _SOME = 0.5, 0.2
"""Waste from which its figure is red, or yellow."""
_WHOLE = 10
"""Tokens per second from which the figure has no decimals."""


def speed(model: DashboardModel, seconds: float) -> list[Span]:
    """Output tokens per second.

    seconds: how long it took; unused on a virtual clock, where the steps count
    """
    time = seconds if model.pace.is_timed else model.fold.step
    rate = model.fold.counters.generation_tokens / time if time else 0.0
    decimals = 0 if rate >= _WHOLE or not rate else 1
    figure = f"{rate:,.{decimals}f}" if time else "-"
    return [(figure, "accent*"), (f" output tokens per {model.pace.unit}", "muted")]


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
    style = "bad*" if usage.waste >= _MUCH else "warn*" if usage.waste >= _SOME else "good*"
    amount = (f"{blocks} ({size}{usage.waste:.0%})", style)
    short = ("wasted at end: " if is_over else "wasted: ", "muted")
    label = ("wasted at its last step: " if is_over else "wasted: ", "muted")
    words = " were allocated, but held no token" if is_over else " are allocated, but hold no token"
    return first_that_fits(
        width,
        (label, amount, (words, "muted")),
        (label, amount, (" held no token" if is_over else " hold no token", "muted")),
        (label, amount),
        (short, (f"{blocks}, {usage.waste:.0%}", style)),
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
