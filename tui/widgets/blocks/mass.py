"""Attention: how much a sequence's newest token attends to each block, as bars, and to each word.

    45% ┤ ███
        ┤ ███       ▄▄▄
     0% ┤ ███  ▁▁▁  ███
    block  4    7    9

It is recorded only on request (key M), because it needs extra computation in the model: the blocks'
shares of every sequence, the words' shares of one. After a preemption, the sequence has another
block table, so its old attention is not drawn.
"""

from math import inf
from typing import NamedTuple

from rich.cells import cell_len

from minivllm.events import types as ev
from minivllm.events.types import TokenAttention
from minivllm.text import clean, fit, short_name
from minivllm.tui.context import Context
from minivllm.tui.draw.lines import Line, Row, first_that_fits, line, text_of
from minivllm.tui.draw.selection import Target, block, sequence
from minivllm.tui.state.block_words import words
from minivllm.tui.state.decisions import layer_and_head
from minivllm.tui.state.explanations import piece_of
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_WIDEST = 5
"""Maximum width of a bar in columns, including the gap after it."""
_AXIS = 7
"""Columns left of the bars, for the axis."""
_MOST_ROWS_BESIDE_WORDS = 5
"""Rows of the bars if the words need room, too."""
_LEAST_FOR_WORDS = 8
"""Rows of the panel from which on the words are drawn."""


class Bar(NamedTuple):
    """One block, or several neighbouring blocks if the table has more blocks than columns."""

    entry: int
    """Block-table index of the bar's first block."""
    blocks: list[int]
    mass: float


class Mass(Panel):
    HELP_TITLE = "Attention"
    HELP_TEXT = (
        "How much attention the newest token of a sequence paid to each block of its table, first"
        " entry on the left, and to each word. The sequence is the selected one, or else the first"
        " running one. M starts the recording. All shares are means over layers and heads, unless"
        " L and H choose one layer and one head. Of the words, the brightest have the largest"
        " shares; a high share of the first token is the attention sink that most models have."
    )
    KEYS = ("engine.mass", "engine.layer", "engine.head")

    def title(self, model: DashboardModel, width: int) -> str:
        return self.HELP_TITLE if model.mass else f"{self.HELP_TITLE}  M"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        seq_id = self._whose(model)
        if seq_id is None:
            hint = "not recorded: M starts it at the next step"
            return [line(width, (hint if model.fold.running else "none running", "faint"))]
        event = _of_words(model, seq_id)
        wide = max(width - _AXIS, 1)
        bars = bars_of(model, seq_id, wide)
        letter = model.letter(seq_id)
        peak = max(bars, key=lambda bar: bar.mass)
        who = (
            (f"{letter or '-'} ", f"{model.hue(letter)}*"),
            (short_name(seq_id), "text*", sequence(seq_id)),
            (f" most on {_name(peak)}: ", "muted"),
            (f"{peak.mass:.1%}", "text*"),
        )
        several = ((f", 1 bar = {len(bars[0].blocks)} blocks", "warn"),) * (len(bars[0].blocks) > 1)
        newest = ((f", newest {bars[-1].mass:.1%}", "muted"),)
        top = [first_that_fits(width, who + newest + several, who + several)]
        if event is not None and height > 5:
            top.append(line(width, (layer_and_head(event), "accent")))
        labelled = height > 3
        rows = height - len(top) - labelled
        has_words = event is not None and self.context is not None and height >= _LEAST_FOR_WORDS
        if has_words:
            rows = min(max(height // 3, 2), _MOST_ROWS_BESIDE_WORDS)
        elif height >= _LEAST_FOR_WORDS:
            rows -= 1
        drawn = [*top, *_draw(bars, peak.mass, model.hue(letter), wide, rows)]
        drawn += [_labels(bars, wide)] * labelled
        if has_words:
            drawn += word_lines(model, self.context, event, width, height - len(drawn))
        elif height >= _LEAST_FOR_WORDS:
            drawn.append(_no_words(model, width))
        return drawn[:height]

    def target_at(self, x: int, y: int) -> Target | None:
        seq_id = self._whose(self._model)
        if seq_id is None or not (0 <= y < len(self._lines) and "┤" in text_of(self._lines[y])):
            return None
        wide = max(self.content_size.width - _AXIS, 1)
        bars = bars_of(self._model, seq_id, wide)
        number = (x - _AXIS) // _pitch(bars, wide)
        return block(bars[number].blocks[0]) if x >= _AXIS and number < len(bars) else None

    def targets(self) -> list[Target]:
        """The first block of every bar, including bars without a label."""
        seq_id = self._whose(self._model)
        if seq_id is None:
            return []
        wide = max(self.content_size.width - _AXIS, 1)
        return [block(bar.blocks[0]) for bar in bars_of(self._model, seq_id, wide)]

    def _whose(self, model: DashboardModel) -> str | None:
        """The selected sequence, or else the first running one; its mass must be known."""
        own = self.selection.seq_id
        known = (seq_id for seq_id in (own, *model.fold.running) if _is_known(model, seq_id))
        return next(known, None)


def _is_known(model: DashboardModel, seq_id: str | None) -> bool:
    mass, sequence = model.mass.get(seq_id), model.fold.sequences.get(seq_id)
    return bool(mass) and sequence is not None and len(mass) <= len(sequence.block_table)


def _of_words(model: DashboardModel, seq_id: str) -> TokenAttention | None:
    """The shares of the sequence's words in the same step as those of its blocks, if recorded."""
    event = model.attention
    return event if event is not None and event.seq_id == seq_id else None


def _no_words(model: DashboardModel, width: int) -> Line:
    if model.attention is None:
        hint = "The shares of the words were not recorded."
    else:
        hint = f"The shares of words were recorded for {short_name(model.attention.seq_id)} only."
    return line(width, (hint, "faint"))


def shares_of(model: DashboardModel, seq_id: str) -> list[float]:
    """The share of each block, of the layer and head that the words' shares are of."""
    event = _of_words(model, seq_id)
    if event is None:
        return model.mass[seq_id]
    size = model.header.block_size
    return [sum(event.weights[at : at + size]) for at in range(0, len(event.weights), size)]


def bars_of(model: DashboardModel, seq_id: str, width: int) -> list[Bar]:
    mass, table = shares_of(model, seq_id), model.fold.sequences[seq_id].block_table
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
    lines = []
    for below in range(rows - 1, -1, -1):
        mark = f"{peak:.0%}" if below == rows - 1 else "0%" if below == 0 else ""
        bar = gap.join([_EIGHTHS[min(max(level - below * 8, 0), 8)] * glyphs for level in levels])
        # The bars are a single span without targets, because `target_at` computes the targets.
        lines.append(((f"{mark:>{_AXIS - 2}}┤ ", "muted"), (bar, style)))
    return lines


def _labels(bars: list[Bar], width: int) -> Line:
    """The number of each bar's first block; with little room, only some bars have a label."""
    pitch, row, at = _pitch(bars, width), Row(width + _AXIS), 0
    row.put(f"{'block':>{_AXIS - 1}} ", "muted")
    for number, bar in enumerate(bars):
        text = str(bar.blocks[0])
        if number * pitch >= at and number * pitch + len(text) <= width:
            row.put(" " * (number * pitch - at)).put(text, "muted", target=block(bar.blocks[0]))
            at = number * pitch + len(text) + 1
            row.put(" ")
    return row.line()


LEVELS = ((0.20, "warn*!"), (0.08, "warn*"), (0.03, "warn"), (0.01, "text"), (0.0, "faint"))
"""(share of the attention, style of a word with at least this share), largest first."""
_LONGEST_WORD = 24


def style_of(share: float) -> str:
    return next((style for least, style in LEVELS if share >= least), "faint")


def word_lines(
    model: DashboardModel, context: Context, event: ev.TokenAttention, width: int, height: int
) -> list[Line]:
    """The words with the largest shares, a legend and the text, in at most `height` rows."""
    if height <= 0:
        return []
    shown = _text(model, context, event, width)
    top = [_most(model, event, width), _legend(width)][: max(height - 2, 0)]
    room = height - len(top)
    if len(shown) > room:
        shown = shown[len(shown) - room + 1 :] if room > 1 else shown[-1:]
        hidden = sum(event.weights[: shown[0][0]])
        if room > 1:
            note = f"… {hidden:.1%} on the {shown[0][0]:,} tokens before"
            top.append(line(width, (note, "muted")))
    return top + [line for _, line in shown]


def _token_ids(model: DashboardModel, event: ev.TokenAttention) -> list[int]:
    sequence = model.fold.sequences[event.seq_id]
    prompt = model.fold.requests[sequence.request_id].prompt_token_ids
    return [*prompt, *sequence.output_token_ids][: len(event.weights)]


def _legend(width: int) -> Line:
    row = Row(width).put("share ", "muted")
    for least, style in LEVELS[:-1]:
        row.put(f"{least:.0%}+", style).put(" ")
    return row.put("less", "faint").line()


def _most(model: DashboardModel, event: ev.TokenAttention, width: int) -> Line:
    """The words with the largest shares, as many as fit."""
    token_ids = _token_ids(model, event)
    row = Row(width).put("most:", "muted")
    for at in sorted(range(len(token_ids)), key=lambda at: -event.weights[at]):
        text = f" {piece_of(model.fold, token_ids[at])} {event.weights[at]:.1%}"
        if cell_len(text) > row.room:
            break
        row.put(text, style_of(event.weights[at]).removesuffix("!"))
    return row.line()


def _text(
    model: DashboardModel, context: Context, event: ev.TokenAttention, width: int
) -> list[tuple[int, Line]]:
    """The rows of the text, each with the position of its first token."""
    token_ids = _token_ids(model, event)
    size, table = model.header.block_size, model.fold.sequences[event.seq_id].block_table
    rows, firsts = [Row(width)], [0]
    marked = words(model, token_ids, context)
    for at, token_id in enumerate(token_ids):
        piece = clean(model.fold.token_pieces.get(token_id, ""))
        # A word that draws nothing, such as a special token without text, is shown by its marks.
        word = piece if piece.strip() else f" {marked[at]}"
        if cell_len(word) > _LONGEST_WORD:
            word = fit(word, _LONGEST_WORD)
        if cell_len(word) > rows[-1].room and rows[-1].room < width:
            rows.append(Row(width))
            firsts.append(at)
            word = word.lstrip()
        target = block(table[at // size]) if at // size < len(table) else None
        rows[-1].put(word, style_of(event.weights[at]), target=target)
    return [(first, row.line()) for first, row in zip(firsts, rows, strict=True)]
