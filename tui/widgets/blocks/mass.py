"""Attention mass: how much a sequence's newest token attends to each block, as bars.

It is recorded only on request (key M), because it needs extra computation in the model. After a
preemption, the sequence has another block table, so its old attention mass is not drawn.
"""

from math import inf
from typing import NamedTuple

from minivllm.text import short_name
from minivllm.tui.draw.lines import Line, Row
from minivllm.tui.draw.selection import Target, block, sequence
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_WIDEST = 5
"""Maximum width of a bar in columns, including the gap after it."""


class Bar(NamedTuple):
    """One block, or several neighbouring blocks if the table has more blocks than columns."""

    entry: int
    """Block-table index of the bar's first block."""
    blocks: list[int]
    mass: float


class Mass(Panel):
    HELP_TITLE = "Attention mass"
    HELP_TEXT = (
        "How much attention the newest token of a sequence paid to each block of its"
        " table, first entry on the left, averaged over layers and heads. The sequence is"
        " the selected one, or else the first running one. M starts the recording; a high"
        " first bar is the attention sink that most models have."
    )
    KEYS = ("engine.mass",)

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        seq_id = self._whose(model)
        if seq_id is None:
            hint = (
                "none running"
                if not model.fold.running
                else "not recorded: M starts it at the next step"
            )
            return [Row(width).put(hint, "faint").line()]
        bars = bars_of(model, seq_id, width)
        letter = model.letter(seq_id)
        peak = max(bars, key=lambda bar: bar.mass)
        head = (
            Row(width)
            .put(f"{letter or '-'} ", f"{model.hue(letter)}*")
            .put(short_name(seq_id), "text*", target=sequence(seq_id))
        )
        head.put(f" most on {_name(peak)}: ", "muted").put(f"{peak.mass:.1%}", "text*")
        head.put(f", newest {bars[-1].mass:.1%}", "muted")
        if len(bars[0].blocks) > 1:
            head.put(f", 1 bar = {len(bars[0].blocks)} blocks", "warn")
        labelled = height > 3
        return [
            head.line(),
            *_draw(bars, peak.mass, model.hue(letter), width, height - 1 - labelled),
            *[_labels(bars, width)] * labelled,
        ][:height]

    def target_at(self, x: int, y: int) -> Target | None:
        seq_id = None if self._model is None or y == 0 else self._whose(self._model)
        if seq_id is None:
            return super().target_at(x, y)
        bars = bars_of(self._model, seq_id, self.content_size.width)
        number = x // _pitch(bars, self.content_size.width)
        return _target(bars[number]) if number < len(bars) else None

    def targets(self) -> list[Target]:
        """The first block of every bar, including bars without a label."""
        seq_id = None if self._model is None else self._whose(self._model)
        if seq_id is None:
            return []
        return [
            _target(bar) for bar in bars_of(self._model, seq_id, max(self.content_size.width, 1))
        ]

    def _whose(self, model: DashboardModel) -> str | None:
        """The selected sequence, or else the first running one; its mass must be known."""
        own = None if self.context is None else self.context.selection.seq_id
        known = (seq_id for seq_id in (own, *model.fold.running) if _is_known(model, seq_id))
        return next(known, None)


def _is_known(model: DashboardModel, seq_id: str | None) -> bool:
    mass = model.mass.get(seq_id)
    return (
        bool(mass)
        and seq_id in model.fold.sequences
        and len(mass) <= len(model.fold.sequences[seq_id].block_table)
    )


def bars_of(model: DashboardModel, seq_id: str, width: int) -> list[Bar]:
    mass, table = model.mass[seq_id], model.fold.sequences[seq_id].block_table
    each = -(-len(mass) // max(width, 1))
    return [
        Bar(entry, table[entry : min(entry + each, len(mass))], sum(mass[entry : entry + each]))
        for entry in range(0, len(mass), each)
    ]


def _name(bar: Bar) -> str:
    if len(bar.blocks) == 1:
        return f"entry {bar.entry}, block {bar.blocks[0]}"
    return f"entries {bar.entry}-{bar.entry + len(bar.blocks) - 1}"


def _pitch(bars: list[Bar], width: int) -> int:
    return min(max(width // len(bars), 1), _WIDEST)


def _draw(bars: list[Bar], peak: float, style: str, width: int, rows: int) -> list[Line]:
    """Draw the bars in steps of an eighth of a row. The highest bar fills all rows."""
    pitch = _pitch(bars, width)
    levels = [round(bar.mass / peak * rows * 8) if 0 < peak < inf else 0 for bar in bars]
    glyphs, gap = max(pitch - 1, 1), " " * (pitch > 1)
    return [
        # A row is a single span without targets, because `target_at` computes the targets.
        (
            (
                gap.join(
                    [_EIGHTHS[min(max(level - below * 8, 0), 8)] * glyphs for level in levels]
                ),
                style,
            ),
        )
        for below in range(rows - 1, -1, -1)
    ]


def _labels(bars: list[Bar], width: int) -> Line:
    """The number of each bar's first block; with little room, only some bars have a label."""
    pitch, row, at = _pitch(bars, width), Row(width), 0
    for number, bar in enumerate(bars):
        text = str(bar.blocks[0])
        if number * pitch >= at and number * pitch + len(text) <= width:
            row.put(" " * (number * pitch - at)).put(text, "muted", target=_target(bar))
            at = number * pitch + len(text) + 1
            row.put(" ")
    return row.line()


def _target(bar: Bar) -> Target:
    return block(bar.blocks[0])
