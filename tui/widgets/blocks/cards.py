"""Block cards: blocks with their text, in a panel of their own or under the block map.

    ▌▌ 0 ab                             a stripe and a letter for each owner
    ▌▌ You are a careful assistant in
    ▌▌ a hospital library

In a few rows, each card is a single row with the newest words.
If not all blocks with text fit, the selected block and those in which something happens come first
(`_ranks`). Cards are in the order of block ids, so that they move as little as possible.
"""

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from itertools import count
from typing import NamedTuple

from rich.cells import cell_len

from minivllm.text import clean, plural
from minivllm.tui.draw.drafts import bracketed, draft_style
from minivllm.tui.draw.lines import Line, Row, Span, joined, line
from minivllm.tui.draw.selection import Target, block, sequence
from minivllm.tui.state.block_words import UNKNOWN_WORDS, Contents, contents
from minivllm.tui.state.chains import PrefixIndex
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.cells import CACHED, signs
from minivllm.tui.widgets.frame.panel import Panel

_ROWS_OF_TEXT = 2
_LEAST_WIDTH = 32
_LONG_WORD = 8
"""Cells per token, so that hardly any text is cut."""
_MOST_STRIPES = 4
_FEWEST = 4
"""Where fewer cards fit, a card is one row."""
_LEAST_WIDTH_OF_ROW = 64


class _Grid(NamedTuple):
    per_row: int
    width: int
    rows_of_text: int
    capacity: int


class BlockCards(Panel):
    HELP_TITLE = "Words in blocks"
    HELP_TEXT = (
        "Blocks with their text. A shared block is one card with a stripe and the letter of each"
        " owner; ░ is free but cached. Reversed words were written by this step, and ╴ is a slot"
        " without a token. Drafts are in brackets, right ones underlined; wrong ones are struck"
        " out, and their slots are free again. If not all blocks fit, those that the engine writes,"
        " those that are shared and the ends of the texts come first."
    )

    def __init__(self, index: PrefixIndex | None = None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._index = index or PrefixIndex()

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        index = self._index.of(model)
        ranks, chosen = _ranks(model), self.selection.block_id
        if chosen in ranks or chosen in index.holders:
            ranks[chosen] = -1
        if not ranks:
            words = _unknown(model) or "no block holds text"
            return [line(width, (words, "faint"))]
        num_empty = len(index.holders.keys() - ranks.keys())
        grid = _lay_out(width, height, len(ranks), model.header.block_size)
        if (len(ranks) > grid.capacity or num_empty) and grid.rows_of_text:
            grid = _lay_out(width, height - 1, len(ranks), model.header.block_size)
        shown = sorted(nsmallest(grid.capacity, ranks, key=ranks.__getitem__))
        happened = signs(model, fades=self.context is None or not self.context.still)
        holders, size, lines = index.holders, (grid.width, grid.rows_of_text), []
        for start in range(0, len(shown), grid.per_row):
            row = shown[start : start + grid.per_row]
            cards = (card(model, at, holders.get(at, ()), size, happened) for at in row)
            for parts in zip(*cards, strict=True):
                lines.append(tuple(span for part in parts for span in (*part, (" ", "text"))))
        more = len(ranks) - len(shown)
        rest = (
            f"+ {plural(more, 'more block')} with text" * bool(more),
            f"+ {plural(num_empty, 'reserved block')} without text" * bool(num_empty),
            _unknown(model),
        )
        lines.append(line(width, ("  ".join(filter(None, rest)), "faint")))
        return lines[:height]

    def targets(self) -> list[Target]:
        """Every block with text, even off the screen: the selected block always has a card."""
        return list(map(block, sorted(_ranks(self._model))))


def card(
    model: DashboardModel,
    block_id: int,
    holders: Iterable[str],
    size: tuple[int, int],
    happened: dict[int, Span],
) -> list[Line]:
    """A block's card.

    holders: the sequences that hold the block
    size: columns, and rows of text
    happened: the signs for what happened to blocks in the last steps
    """
    width, rows = size
    owners = [
        (seq_id, model.fold.sequences[seq_id].block_table.index(block_id)) for seq_id in holders
    ]
    letters = [(seq_id, model.letter(seq_id) or "?") for seq_id, _ in owners]
    stripes = [("▌", model.hue(letter)) for _, letter in letters[:_MOST_STRIPES]]
    stripes = stripes or [(CACHED, "cached")]
    held = contents(model, block_id, owners)
    head = Row(width - len(stripes))
    digits = 0 if rows else len(str(len(model.fold.blocks) - 1))
    head.put(f"{block_id:>{digits}} ", "text*", target=block(block_id))
    for seq_id, letter in letters:
        head.put(letter, f"{model.hue(letter)}*", target=sequence(seq_id))
    if not owners:
        head.put(" cached" if model.fold.blocks[block_id].hash is not None else " empty", "cached")
    elif rows and len(held.token_ids) < model.header.block_size:
        head.put(f" {len(held.token_ids)} of {model.header.block_size}", "muted")
    for is_right, what in ((None, "+{} drafted"), (False, "{} undone")):
        if count := sum(1 for _, right in held.drafts if right is is_right):
            head.put(f" {what.format(count)}", "muted")
    if block_id in happened:
        sign, style = happened[block_id]
        head.put(f" {sign}", style)
    spans = _words(model, block_id, held, bool(owners))
    if not rows:
        (body,) = _body(spans, head.put(" ").room, 1)
        return [(*stripes, *head.line(), *body)]
    head.put("", width=head.room)
    body = _body(spans, width - len(stripes), rows)
    return [(*stripes, *line) for line in (head.line(), *body)]


def _words(model: DashboardModel, block_id: int, held: Contents, owned: bool) -> Iterator[Span]:
    """The block's tokens and empty slots, as spans that select it."""
    pieces = model.fold.token_pieces
    target = block(block_id)
    if not owned and not held.token_ids:
        yield from ((f"{word} ", "faint=", target) for word in UNKNOWN_WORDS.split())
        return
    for at, token_id in enumerate(held.token_ids):
        style = "cached=" if not owned else "text=" if at < held.num_prompt else "good="
        new = "!" if at in held.new else ""
        yield clean(pieces.get(token_id, f" {token_id}")), style + new, target
    for token_id, is_right in held.drafts:
        word = bracketed(clean(pieces.get(token_id, f" {token_id}")).strip(" "), is_right)
        yield f" {word}", f"{draft_style(is_right)}=!", target
    for _ in range(model.header.block_size - len(held.token_ids) - len(held.drafts)):
        yield "╴", "faint=", target


def _unknown(model: DashboardModel) -> str:
    """How many cached blocks have no card; empty if all have."""
    ages, blocks = model.ages, model.fold.blocks
    cached = (block_id for block_id in model.fold.free_queue if blocks[block_id].hash is not None)
    count = sum(not ages.has_tokens(block_id) for block_id in cached)
    return f"+ {plural(count, 'cached block')}, {UNKNOWN_WORDS}" if count else ""


def _lay_out(width: int, height: int, num_blocks: int, block_size: int) -> _Grid:
    """As many cards as fit; if all fit, with more rows for texts that are cut otherwise."""
    per_row = max(width // (_LEAST_WIDTH + 1), 1)
    if height // (1 + _ROWS_OF_TEXT) * per_row < min(_FEWEST, num_blocks):
        per_row = max(width // _LEAST_WIDTH_OF_ROW, 1)
        return _Grid(per_row, width // per_row - 1, 0, height * per_row)
    free = height // -(-num_blocks // per_row) - 1
    enough = max(block_size * _LONG_WORD // _LEAST_WIDTH, 1)
    rows = max(min(free, enough), min(_ROWS_OF_TEXT, enough))
    return _Grid(per_row, width // per_row - 1, rows, max(height // (1 + rows), 1) * per_row)


def _ranks(model: DashboardModel) -> dict[int, int]:
    """Each block with text -> its rank: the lower, the sooner it gets a card."""
    fold, size = model.fold, model.header.block_size
    ranks: dict[int, int] = {}
    held = fold.sequences.values()
    tables = [state.block_table[: -(-state.num_computed_tokens // size)] for state in held]
    for table in tables:
        ranks.update(zip(reversed(table), count(0, 2), strict=False))
    # After the blocks that are being written come shared blocks, then the others, from the end.
    ranks.update((at, 1) for at in ranks if fold.blocks[at].ref_cnt > 1)
    ranks.update((table[-1], 0) for table in tables if table)
    behind = len(fold.blocks) * 2
    for age, block_id in enumerate(reversed(fold.free_queue)):
        if model.ages.has_tokens(block_id):
            ranks[block_id] = behind + age
    return ranks


def _body(words: Iterator[Span], width: int, num_rows: int) -> list[Line]:
    """The words in rows of one card; if not all fit, as many as fit up to the newest word."""
    spans = list(words)
    if first := _first_shown(spans, width, num_rows):
        text, *look = spans[first]
        spans[first] = f"…{text.lstrip(' ')}", *look
    rows, ground, last = [Row(width)], ["text="], len(spans) - 1
    for at, (text, *look) in enumerate(spans[first:], first):
        room, is_last_row = rows[-1].room, len(rows) == num_rows
        if cell_len(text) > room - (is_last_row and at < last) and room < width:
            if is_last_row:
                rows[-1].add(("…", *ground))
                break
            rows.append(Row(width))
            text = text.lstrip(" ")
        rows[-1].add((text, *look))
        ground = ground if "!" in look[0] else look
    rows += [Row(width) for _ in range(num_rows - len(rows))]
    return [joined(row.add((" " * row.room, *ground)).line()) for row in rows]


def _first_shown(spans: list[Span], width: int, num_rows: int) -> int:
    """The first of the words before the newest that fit into the rows with it."""
    newest = max((at for at, span in enumerate(spans) if "!" in span[1]), default=0)
    room = width - (newest + 1 < len(spans))  # for the ellipsis after it
    for at in range(newest, -1, -1):
        text = spans[at][0]
        if cell_len(text) + (text[:1] != " ") > room:  # an ellipsis takes the place of the space
            num_rows, room = num_rows - 1, width
        if not num_rows:
            return min(at + 1, newest)
        room -= cell_len(text)
    return 0
