"""The text of a sequence, word by word: coloured by confidence, the word in question in reverse."""

from math import ceil
from typing import NamedTuple

from rich.cells import cell_len

from minivllm.text import clean, visible
from minivllm.tui.draw.confidence import confidence_style, put_word
from minivllm.tui.draw.drafts import FORCED_SIGN
from minivllm.tui.draw.lines import Line, Row, line
from minivllm.tui.draw.selection import Target, token
from minivllm.tui.state.explanations import TOKENS_KEPT, JudgedToken
from minivllm.tui.state.model import DashboardModel

_PROMPT_TOKENS = 48
"""How many tokens of the prompt are shown, at most."""
_BARS = " ▁▂▃▄▅▆▇█"
_BAR_ROWS, _BAR_WIDTH = 16, 3
"""The size of a bar of 100 % where there is room."""


class _Word(NamedTuple):
    position: int
    text: str
    style: str
    target: Target | None


def sentence(
    model: DashboardModel, seq_id: str, at: int, upcoming: int | None, width: int, height: int
) -> list[Line]:
    """At most `height` rows with the word at position `at`.

    upcoming: the token at this position, if the sequence does not have it yet
    """
    words = _words(model, seq_id, at, upcoming)
    # In a single row, the text moves in jumps of half a row.
    rows = _packed(words, width if height > 1 else max(width // 2, 1))
    here = next((i for i, row in enumerate(rows) if any(one.position == at for one in row)), 0)
    first = max(min(here - height // 2, len(rows) - height), 0)
    if height == 1 and here:
        rows, first = [[*rows[here - 1], *rows[here]]], 0
    lines = []
    for packed in rows[first : first + height]:
        row = Row(width)
        for one in packed:
            put_word(row, one.text, one.style, one.target)
        lines.append(row.line())
    return lines


class _Column(NamedTuple):
    word: Line
    percent: Line
    likelihood: float
    style: str
    cells: int

    def bar(self, height: int) -> list[Line]:
        """The likelihood as a bar of at most `height` rows, the upper row first."""
        eighths = round(8 * height * self.likelihood)
        levels = (min(max(eighths - 8 * below, 0), 8) for below in reversed(range(height)))
        wide = min(self.cells - 1, _BAR_WIDTH)
        return [line(self.cells, (f"{_BARS[at] * wide:{self.cells}}", self.style)) for at in levels]


def filmstrip(
    model: DashboardModel, seq_id: str, at: int, width: int, height: int, *, ascii: bool = False
) -> list[Line]:
    """The words up to position `at`, with the model's probability of each below and as a bar.

    If not all words fit, the rows are filled from the end, and the first words are left out.
    """
    judged = [one for one in model.explanations.judged.get(seq_id, ()) if one.position <= at]
    columns = [_column(model, seq_id, one, one.position == at, width, ascii) for one in judged]
    rows, most = _rows_of(columns, width), (height + 1) // 3
    if not rows or not most:
        return []
    if len(rows) > most:
        rows = [row[::-1] for row in _rows_of(columns[::-1], width)[:most]][::-1]
    bar_rows = min((height + 1) // len(rows) - 3, _BAR_ROWS)
    lines: list[Line] = []
    for row in rows:
        # Leave out rows over the tallest bar: unlikely words are not far below what is above them.
        highest = max(one.likelihood for one in row)
        empty = bar_rows - ceil(round(8 * bar_rows * highest) / 8)
        parts = zip(
            *((*one.bar(bar_rows)[empty:], one.word, one.percent) for one in row), strict=True
        )
        lines += [tuple(span for part in each for span in part) for each in parts]
        lines.append(())
    return lines[:-1]


def _column(
    model: DashboardModel, seq_id: str, one: JudgedToken, is_chosen: bool, width: int, ascii: bool
) -> _Column:
    text = visible(model.fold.token_pieces.get(one.token_id, str(one.token_id)), ascii)
    grammar = model.explanations.grammar_at(seq_id, one.position)
    forced = FORCED_SIGN if grammar is not None and grammar.num_allowed == 1 else ""
    figure, style = f"{forced}{one.percent}%", confidence_style(one.percent)
    cells = min(max(cell_len(text), len(figure)) + 1, width)
    look = "accent*!" if is_chosen else style
    word = Row(cells).put(text, look, target=token(seq_id, one.position))
    percent = Row(cells).put(figure, style)
    return _Column(
        word.put("", width=word.room).line(),
        percent.put("", width=percent.room).line(),
        one.percent / 100,
        style.rstrip("_*"),
        cells,
    )


def _rows_of(columns: list[_Column], width: int) -> list[list[_Column]]:
    """The columns in rows of at most `width` cells."""
    rows: list[list[_Column]] = []
    room = 0
    for column in columns:
        if column.cells > room:
            rows.append([])
            room = width
        rows[-1].append(column)
        room -= column.cells
    return rows


def _words(model: DashboardModel, seq_id: str, at: int, upcoming: int | None) -> list[_Word]:
    judged = model.explanations.judged.get(seq_id, [])
    percents = {one.position: one.percent for one in judged}
    tokens = _tokens(model, seq_id) or [(one.position, one.token_id) for one in judged]
    tokens = [pair for pair in tokens if pair[0] < at or upcoming is None]
    first_output = percents and judged[0].position
    pieces, words = model.fold.token_pieces, []
    sequence = model.fold.sequences.get(seq_id)
    num_prompt = first_output if sequence is None else sequence.num_prompt_tokens
    for position, token_id in tokens:
        text = clean(pieces.get(token_id, f" {token_id}"))
        style = "muted" if position < num_prompt else confidence_style(percents.get(position))
        target = token(seq_id, position) if position in percents else None
        words.append(_Word(position, text, "accent*!" if position == at else style, target))
    if upcoming is not None:
        text = clean(pieces.get(upcoming, f" {upcoming}"))
        words.append(_Word(at, text, "accent*!", None))
    elif not words or words[-1].position < at:
        words.append(_Word(at, " ? ", "accent*!", None))
    return words


def _tokens(model: DashboardModel, seq_id: str) -> list[tuple[int, int]]:
    """(Position, id) of a live sequence's last tokens. The first one moves in jumps."""
    sequence = model.fold.sequences.get(seq_id)
    if sequence is None:
        return []
    start = max(sequence.num_prompt_tokens - _PROMPT_TOKENS, 0)
    if sequence.num_tokens - start > 2 * TOKENS_KEPT:
        start = (sequence.num_tokens // TOKENS_KEPT - 1) * TOKENS_KEPT
    prompt = model.fold.requests[sequence.request_id].prompt_token_ids[start:]
    output = sequence.output_token_ids[max(start - sequence.num_prompt_tokens, 0) :]
    return list(enumerate([*prompt, *output], start))


def _packed(words: list[_Word], width: int) -> list[list[_Word]]:
    rows, room = [[]], width
    for word in words:
        cells = cell_len(word.text)
        if cells > room and rows[-1]:
            rows.append([])
            room = width
        rows[-1].append(word)
        room -= cells
    return rows
