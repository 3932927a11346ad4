"""Token budget: how the last step's tokens were given out, and why some were not."""

from minivllm.events.state import ScheduledState
from minivllm.tui.decisions import deferral
from minivllm.tui.letters import hue
from minivllm.tui.lines import Line, Row
from minivllm.tui.model import DashboardModel
from minivllm.tui.text import short_name
from minivllm.tui.widgets.panel import Panel

_SPARKS = "▁▂▃▄▅▆▇█"


class Budget(Panel):
    """A bar as wide as the budget, in the letters of those who got a part."""

    HELP_TITLE = "Token budget"
    HELP_TEXT = (
        "The bar is the most tokens one step may compute, each part marked with the letter of the sequence that got it: a "
        "decode takes one token, a prefill takes a chunk. Below: the sums, why some of it was not used, and the last steps."
    )

    def title(self, model: DashboardModel, width: int) -> str:
        used = sum(item.num_tokens for item in model.fold.scheduled)
        return f"Token budget  {used:,} of {_budget(model):,}"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        fold = model.fold
        used = sum(item.num_tokens for item in fold.scheduled)
        decode = sum(item.num_tokens for item in fold.scheduled if item.kind == "decode")
        unused = _budget(model) - used
        sums = Row(width).put("decode ", "muted").put(f"{decode:,}", "text*").put("  prefill ", "muted")
        sums.put(f"{used - decode:,}", "text*").put("  unused ", "muted").put(f"{unused:,}", "text*")
        lines = [_bar(model, width), sums.line(), Row(width).put(_why_unused(model, unused), "muted").line()]
        if height >= 4:
            lines.append(_history(model, width))
        return lines[:height]


def split(items: list[ScheduledState], budget: int, width: int) -> list[int]:
    """Cells of the bar for each item: to scale, but one at least, so that a decode is always seen.

    If the budget fits, a cell is a token. Otherwise rounding and the "at least one" may ask for more
    cells than the bar has; then the widest parts give way.
    """
    if budget <= width:
        return [item.num_tokens for item in items]
    cells = [max(1, round(item.num_tokens * width / budget)) for item in items]
    while sum(cells) > width and max(cells) > 1:
        cells[cells.index(max(cells))] -= 1
    return cells


def _bar(model: DashboardModel, width: int) -> Line:
    items, budget = model.fold.scheduled, _budget(model)
    row = Row(min(width, budget))
    for item, cells in zip(items, split(items, budget, width), strict=True):
        letter = model.letter(item.seq_id) or "?"
        # Prefills stand out: reverse, so that they read as blocks of colour, decodes as letters.
        row.put(letter * cells, hue(letter) + ("!" if item.kind == "prefill" else "*"))
    return row.put("·" * row.room, "faint").line()


def _why_unused(model: DashboardModel, unused: int) -> str:
    fold = model.fold
    if not fold.scheduled:
        return "nothing to compute"
    if unused == 0:
        return "all used"
    if not fold.waiting:
        return "unused: nobody waits"
    first = fold.waiting[0]
    deferred = fold.sequences[first].deferred
    if deferred is None:
        return f"unused: {short_name(first)} came after the plan"
    return f"unused: {short_name(first)}: {deferral(*deferred, model.header.max_num_seqs)}"


def _history(model: DashboardModel, width: int) -> Line:
    row = Row(width).put("last steps ", "muted")
    budget = _budget(model)
    recent = list(model.used)[-row.room :]
    return row.put("".join(_SPARKS[min(used * 8 // budget, 7)] for used in recent), "accent").line()


def _budget(model: DashboardModel) -> int:
    """The last step's budget; before the first step, what it will be."""
    return model.fold.budget or model.header.max_num_batched_tokens
