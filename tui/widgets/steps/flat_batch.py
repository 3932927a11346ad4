"""Flat batch: the tokens of a step as the model gets them, one after another, without padding.

    row   pos     id word    slot
      0 a  54   1248 dragon   198 = block 12 × 16 + 6
      1 b  54    338 was      214 = block 13 × 16 + 6

The runner's `InputBatch` makes the same arrays: `token_ids`, `positions` and `slot_mapping`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len

from minivllm.text import fit, plural, short_name, visible
from minivllm.tui.draw.drafts import bracketed, draft_style
from minivllm.tui.draw.lines import Line, Row, line
from minivllm.tui.draw.selection import Target
from minivllm.tui.draw.selection import block as to_block
from minivllm.tui.draw.selection import sequence as to_sequence
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel

_HEAD = "row    pos     id "
_WORD = 14
_SLOT = 7
_ITEM = len(_HEAD) + _WORD + _SLOT
"""Columns of one token; wide panels have several tokens in a row."""
_GAP = 3
_EQUATION = 25
"""Columns for a slot's block and place, where a row has room after its last token."""


class InputToken(NamedTuple):
    """One row of the batch."""

    row: int
    seq_id: str
    position: int
    token_id: int | None
    """None if the sequence has ended since."""
    slot: int | None
    """None if the cache has the token already, or the sequence has released the block since."""
    is_draft: bool = False
    is_right: bool | None = None
    """Whether a draft was accepted; None before the verification."""
    is_forced: bool = False
    """Whether the draft is one that a grammar forces."""


class FlatBatch(Panel):
    HELP_TITLE = "Flat batch"
    HELP_TEXT = (
        "The last step's tokens as the model gets them: one after another, without padding, in the"
        " order of the plan. Each has its position in its sequence, its id and word, and the slot"
        " for its keys and values: block number times block size, plus the place in the block. No"
        " slot (·): the prefix cache has them, and the token is computed only for its logits."
        " Drafts are in brackets, right ones underlined, wrong ones struck out. A click on a slot"
        " selects its block. If not all tokens fit, those of the selected sequence come first."
    )
    RULE = "minivllm.runtime.input_batch:InputBatch.prepare"

    def targets(self) -> list[Target]:
        """The sequences, each once; only the mouse selects the blocks of slots."""
        return [to_sequence(item.seq_id) for item in self._model.fold.scheduled]

    def title(self, model: DashboardModel, width: int) -> str:
        total = sum(item.num_tokens for item in model.fold.scheduled)
        return f"Flat batch  {plural(total, 'token')}"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        fold = model.fold
        total = sum(item.num_tokens for item in fold.scheduled)
        if not total:
            return [line(width, ("no token in this step", "faint"))]
        num_columns = max((width + _GAP) // (_ITEM + _GAP), 1)
        num_rows = max(height - 1, 1)
        first = 0
        if total > num_columns * num_rows:
            num_rows = max(num_rows - 1, 1)  # the last row counts the others
            first = _first_row(model, self.selection.seq_id, total - num_columns * num_rows)
        shown = list(input_tokens(model, first, first + num_columns * num_rows))
        num_rows = min(num_rows, -(-len(shown) // num_columns))
        lines = [_head(width, -(-len(shown) // num_rows))]
        for y in range(num_rows):
            row = Row(width)
            for number, token in enumerate(shown[y::num_rows]):
                row.put(" " * _GAP if number else "")
                _put(row, model, token)
            if token.slot is not None and row.room >= _EQUATION:
                block_id, place = divmod(token.slot, model.header.block_size)
                row.put(f" = block {block_id:,} × {model.header.block_size} + {place}", "muted")
            lines.append(row.line())
        if hidden := total - len(shown):
            lines.append(line(width, (f"+ {plural(hidden, 'more token')}", "muted")))
        return lines[:height]


def input_tokens(model: DashboardModel, first: int, end: int) -> Iterator[InputToken]:
    """The rows `first` up to, but not including, `end` of the last step's batch."""
    fold, size, begin = model.fold, model.header.block_size, 0
    for item in fold.scheduled:
        sequence = fold.sequences.get(item.seq_id)
        for row in range(max(first, begin), min(end, begin + item.num_tokens)):
            position = item.num_computed_tokens + row - begin
            # A waiting sequence is a newer one, with the name of one that has ended.
            if sequence is None or sequence.status == "WAITING":
                yield InputToken(row, item.seq_id, position, None, None)
                continue
            prompt = fold.requests[sequence.request_id].prompt_token_ids
            at = position - len(prompt)
            slot, table, entry = None, sequence.block_table, position // size
            if position >= sequence.num_cached_tokens and entry < len(table):
                slot = table[entry] * size + position % size
            drafts = item.draft_token_ids
            draft = row - begin - (item.num_tokens - len(drafts))
            if draft >= 0:
                is_right = None if item.num_accepted is None else draft < item.num_accepted
                forced = model.drafts.are_forced(item.seq_id, fold.step)
                yield InputToken(
                    row, item.seq_id, position, drafts[draft], slot, True, is_right, forced
                )
                continue
            token_id = prompt[position] if at < 0 else sequence.output_token_ids[at]
            yield InputToken(row, item.seq_id, position, token_id, slot)
        begin += item.num_tokens


def _first_row(model: DashboardModel, chosen: str | None, last: int) -> int:
    """The row of the selected sequence's first token, but at most `last`."""
    begin = 0
    for item in model.fold.scheduled:
        if item.seq_id == chosen:
            return min(begin, last)
        begin += item.num_tokens
    return 0


def _head(width: int, num_columns: int) -> Line:
    head = f"{_HEAD}{'word':<{_WORD}}{'slot':>{_SLOT}}"
    return line(width, ((" " * _GAP).join([head] * num_columns), "muted"))


def _put(row: Row, model: DashboardModel, token: InputToken) -> None:
    letter, target = model.letter(token.seq_id), to_sequence(token.seq_id)
    row.put(f"{token.row:>3} ", "faint")
    row.put(f"{letter or ' '} ", f"{model.hue(letter)}*", 2, target)
    row.put(f"{token.position:>4} ", "muted")
    if token.token_id is None:
        row.put(f" {short_name(token.seq_id)} has ended", "faint", _ITEM - 11)
        return
    row.put(f"{token.token_id:>6} ", "muted")
    word, style = visible(model.fold.token_pieces.get(token.token_id, "")), "text="
    if cell_len(word) > _WORD - 3:
        word = fit(word, _WORD - 3)
    if token.is_draft:
        word = bracketed(word, token.is_right)
        style = draft_style(token.is_right, forced=token.is_forced)
    row.put(word, style).put(" " * (_WORD - cell_len(word)))
    if token.slot is None:
        row.put(f"{'·':>{_SLOT}}", "faint")
        return
    at = to_block(token.slot // model.header.block_size)
    row.put(f"{token.slot:>{_SLOT},}", "text", target=at)
