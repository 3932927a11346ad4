"""The text of a sequence, word by word: coloured by confidence, the word in question in reverse."""

from typing import NamedTuple

from rich.cells import cell_len

from minivllm.text import clean
from minivllm.tui.draw.confidence import confidence_style, put_word
from minivllm.tui.draw.lines import Line, Row
from minivllm.tui.draw.selection import Target, token
from minivllm.tui.state.explanations import TOKENS_KEPT
from minivllm.tui.state.model import DashboardModel

_PROMPT_TOKENS = 48
"""How many tokens of the prompt are shown, at most."""


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
