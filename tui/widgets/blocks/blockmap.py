"""Block map: every block of the KV cache, its fill and its owner.

A block takes two columns (`cells`). In a large panel, it also shows its number and a wider glyph.
In a small panel, a cell stands for several blocks. `lay_out` chooses the grid.

Cells of equal style are joined into runs, so that a large map stays cheap. A target in each cell's
style would break up these runs. So the block under the mouse is computed from the grid, and the
selected block is highlighted here and not by `highlight`.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import NamedTuple

from minivllm.text import format_memory, plural
from minivllm.tui.draw.drafts import DRAFT, DRAFT_STYLE, UNDONE
from minivllm.tui.draw.lines import Line, Span, first_that_fits
from minivllm.tui.draw.selection import Target, block
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.cards import BlockCards
from minivllm.tui.widgets.blocks.cells import CACHED, EMPTY, FILL, Cell, block_cells, group_cells
from minivllm.tui.widgets.frame.panel import Panel

_FEWEST = 32
"""Blocks that are drawn before any is used, if there are many more."""
_ROWS_OF_WORDS = (6, 5)
"""Rows for an empty row and words under the map, if all blocks fit above them one by one."""
_MOST_OF = 0.8
"""The share of a panel's width that a row of wide glyphs has to take."""


class Grid(NamedTuple):
    blocks_per_cell: int
    per_row: int
    glyphs: int
    """Width of the fill glyph, in columns; more than 1 only in a large panel."""
    gap: int
    """Number of columns between two cells."""
    numbered: bool
    """Whether each cell shows its block's number; otherwise each row shows its first block's."""
    spread: bool
    digits: int
    """Width of a block's number, in columns."""

    def origin(self, cell: int) -> tuple[int, int]:
        """Column and row where a cell begins, including its number."""
        row, place = divmod(cell, self.per_row)
        left = 0 if self.numbered else self.digits + 1
        return left + place * self.pitch, row * (1 + self.spread)

    def cell_at(self, x: int, y: int) -> int | None:
        """The cell at a position; None in a gap or beside the map."""
        row, between = divmod(y, 1 + self.spread)
        place, column = divmod(x - self.origin(0)[0], self.pitch)
        if between or not 0 <= place < self.per_row or column >= self.pitch - self.gap:
            return None
        return row * self.per_row + place

    def block_at(self, x: int, y: int, count: int) -> int | None:
        """The first of `count` blocks that is in the cell at a position, if there is one."""
        cell = self.cell_at(x, y)
        number = count if cell is None else cell * self.blocks_per_cell
        return number if number < count else None

    def width(self, num_cells: int) -> int:
        """Columns of the widest row."""
        return self.origin(min(num_cells, self.per_row) - 1)[0] + self.pitch - self.gap

    @property
    def pitch(self) -> int:
        """Columns from the start of a cell to the start of the next."""
        return self.glyphs + 1 + self.gap + (self.digits + 1 if self.numbered else 0)


class BlockMap(Panel):
    HELP_TITLE = "KV cache"
    HELP_TEXT = (
        "Every block of the KV cache. A cell shows how full the block is, then the letter of its"
        " owner, or a digit where several sequences share it; a sequence copies a shared block"
        " before it writes into it. ░ is free but cached (a prompt with the same beginning can"
        " reuse it), ·· is empty. A reversed cell: the last step wrote tokens into the block, or"
        " took, found, copied, freed or evicted it. A sign before the cell says more, and fades in"
        " the next two steps: ● found by a lookup, → copied to ←, × evicted; for one step, ? drafts"
        " and ~ slots of wrong drafts. With a second memory: ↓ saved in the host's memory, ≡"
        " rescued (evicted, and the host has its content), ↑ being loaded. Where cells have no numbers, the letter has the sign's"
        " colour. If there is room, blocks with their words are drawn under the map."
    )

    def __init__(self, *, shows_words: bool = True, id: str | None = None) -> None:
        """shows_words: draw blocks with their words under the map if there is room"""
        super().__init__(id=id)
        self._cards = BlockCards() if shows_words else None
        self.beside: list[DashboardModel] = []
        """Other maps of as many blocks, which have the same grid."""

    def title(self, model: DashboardModel, width: int) -> str:
        # Show nothing here that changes in each step: a new title repaints the whole panel.
        blocks, header = model.header.num_usable_blocks, model.header
        title = f"KV cache  {blocks:,} blocks of {header.block_size} tokens"
        if not header.block_bytes:  # an old recording
            return title
        stored = f" in {header.kv_cache_dtype}" if header.kv_cache_dtype else ""
        memory = f"{title}, {format_memory(blocks * header.block_bytes)}"
        known = header.weight_bytes  # a real vLLM's recording does not say it
        weights = f"; weights {format_memory(known)}" if known else ""
        texts = (memory + stored + weights, memory + weights, memory)
        return next((text for text in texts if len(text) + 4 <= width), title)

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        map_height = max(height - 1, 1)
        grid, count = self._lay_out(model, width, map_height)
        cells = block_cells(model, fades=self.context is None or not self.context.still)[:count]
        lines = draw(group_cells(cells, grid.blocks_per_cell), grid)[:map_height]
        if (unused := len(model.fold.blocks) - count) and len(lines) < map_height:
            words = f"+ {plural(unused, 'block')} never used", f"+ {unused} unused"
            lines.append(first_that_fits(width, *(((text, "muted"),) for text in words)))
        chosen = self.selection.block_id
        if chosen is not None and chosen < count:
            mark(lines, grid, chosen, width)
        room = map_height - len(lines) - 1
        if self._cards is not None and grid.blocks_per_cell == 1 and room >= _ROWS_OF_WORDS[-1] - 1:
            self._cards.context = self.context
            lines += [(), *self._cards.lines(model, width, room)]
        lines.extend([()] * (height - 1 - len(lines)))
        if height > 1:
            signs = _SIGNS + (_DRAFT_SIGNS if model.drafts.by_seq else ())
            more = _HOST_SIGNS if model.fold.host_blocks else ()
            is_single = grid.blocks_per_cell == 1
            drawn = {cell.sign[0] for cell in cells if cell.sign and lines[-1] and is_single}
            used = tuple(entry for entry in signs if drawn.intersection(entry[0][0][0]))
            legend = _legend(grid.blocks_per_cell, width, signs, more, used)
            if is_single and _HIT[0] not in legend and not lines[-1]:
                signs = explain(*signs, *more), explain(*_SIGNS, *more, gap=" "), explain(*_SIGNS)
                lines[-1] = first_that_fits(width, *signs)
                legend = _legend(1, width, (), (), ())
            lines.append(legend)
        return lines

    def targets(self) -> list[Target]:
        """Every block can be selected, even if a cell stands for several blocks."""
        return [block(block_id) for block_id in range(len(self._model.fold.blocks))]

    def target_at(self, x: int, y: int) -> Target | None:
        """The block at a position. If its cell stands for several blocks, the first of them."""
        width, height = self.content_size
        if y >= height - 1:
            return None
        grid, count = self._lay_out(self._model, width, height - 1)
        block_id = grid.block_at(x, y, count)
        return None if block_id is None else block(block_id)

    def _lay_out(self, model: DashboardModel, width: int, height: int) -> tuple[Grid, int]:
        """The grid and how many blocks it holds; with rows for words if the blocks leave them."""
        rows = _ROWS_OF_WORDS if self._cards is not None else ()
        models = [model, *self.beside]
        grids = [_lay_out_used(models, width, height - some) for some in rows if some < height]
        grids = [found for found in grids if found[0].blocks_per_cell == 1]
        numbered = (found for found in grids if found[0].numbered)
        return next(numbered, grids[0] if grids else _lay_out_used(models, width, height))


# (numbered, glyphs, gap) from the widest to the densest.
_SIZES = (
    *((True, glyphs, 3) for glyphs in (16, 14, 12, 10, 8, 6, 5, 4, 3, 2)),
    (True, 2, 2),
    *((True, 1, gap) for gap in (3, 2, 1)),
    (False, 1, 1),
    (False, 1, 0),
)


def _lay_out_used(models: list[DashboardModel], width: int, height: int) -> tuple[Grid, int]:
    """The grid, and how many blocks it holds: all, or if they do not fit one by one, those that
    were ever used. Their number is rounded up, so that the grid seldom changes.
    """
    known, count = [model.ages.blocks for model in models], len(models[0].fold.blocks)
    grid = lay_out(count, width, height)
    if grid.blocks_per_cell > 1:
        used = (at + 1 for at in reversed(range(count)) if any(ages[at] for ages in known))
        num_used = next(used, 0)
        rounded = max(_FEWEST, 1 << (num_used - 1).bit_length()) if num_used else _FEWEST
        if rounded < count:
            return lay_out(rounded, width, max(height - 1, 1)), rounded
    return grid, count


@lru_cache(64)
def lay_out(num_blocks: int, width: int, height: int) -> Grid:
    """The most legible grid that holds all blocks in `width` x `height`."""
    digits = len(str(max(num_blocks - 1, 0)))
    label = digits + 1
    fitting = []
    for numbered, glyphs, gap in _SIZES:
        cell_width = glyphs + 1 + gap + (label if numbered else 0)
        per_row = _round_down((width + gap - (0 if numbered else label)) // cell_width)
        rows = -(-num_blocks // per_row)
        spread = rows * 2 - 1 <= height
        # Use wide glyphs only with empty rows in between, and with at least 8 cells per row.
        if rows <= height and (glyphs == 1 or (spread and per_row >= 8)):
            fitting.append(Grid(1, per_row, glyphs, gap, numbered, spread, digits))
    if fitting and fitting[0].spread:
        wide = (grid for grid in fitting if grid.numbered and grid.spread)
        wide = (grid for grid in wide if grid.width(num_blocks) >= _MOST_OF * width)
        return next(wide, fitting[0])
    if fitting:
        # Rows of 16 with empty rows in between fill a wide panel better than dense rows of 8.
        wide = (grid for grid in fitting if grid.numbered and grid.spread and grid.per_row >= 16)
        return next(wide, fitting[0])
    per_row = _round_down((width - label) // 2)
    blocks_per_cell = 2
    while -(-num_blocks // (blocks_per_cell * per_row)) > height:
        blocks_per_cell *= 2
    return Grid(blocks_per_cell, per_row, 1, 0, numbered=False, spread=False, digits=digits)


def _round_down(per_row: int) -> int:
    """Round down to a multiple of 8, or to 4, 2 or 1: each row's first number is then round."""
    if per_row >= 8:
        return per_row // 8 * 8
    return 4 if per_row >= 4 else 2 if per_row >= 2 else 1


def draw(cells: list[Cell], grid: Grid) -> list[Line]:
    lines: list[Line] = []
    for start in range(0, len(cells), grid.per_row):
        if lines and grid.spread:
            lines.append(())
        lines.append(_row(tuple(cells[start : start + grid.per_row]), start, grid))
    return lines


@lru_cache(512)
def _row(cells: tuple[Cell, ...], start: int, grid: Grid) -> Line:
    """Cached, because most rows do not change between frames."""
    if grid.numbered:
        return _numbered_row(cells, start, grid)
    label = (f"{start * grid.blocks_per_cell:>{grid.digits}}", "faint")
    return (label, *_runs(cells, " " * grid.gap))


def _numbered_row(cells: tuple[Cell, ...], start: int, grid: Grid) -> Line:
    spans: list[Span] = []
    for offset, cell in enumerate(cells):
        gap = grid.gap if offset else 0
        number = f"{'':{gap}}{start + offset:>{grid.digits}}"
        if cell.sign is None:
            spans.append((f"{number} ", "faint"))
        else:
            spans += [(number, "faint"), cell.sign]
        spans += _cell_spans(cell, grid.glyphs)
    return tuple(spans)


def _runs(cells: tuple[Cell, ...], gap: str) -> Iterator[Span]:
    """Yield a row's cells as spans, each cell with the gap before it.

    Neighbouring cells share a span, unless the last steps lit them. A sign replaces the gap. If
    there is no gap, the cell's letter gets the sign's colour.
    """
    before = " "  # after the row's number
    for (style, sign), run in groupby(cells, key=attrgetter("style", "sign")):
        if sign is None and not style.endswith("!"):
            yield before + gap.join([cell.glyph + cell.mark for cell in run]), style
            before = gap
            continue
        for cell in run:
            if sign is None or before:
                yield from [(before, "faint")] * bool(before) if sign is None else [sign]
                yield from _cell_spans(cell, 1)
            else:
                yield cell.glyph, style.rstrip("!")
                yield cell.mark, sign[1] + "!" * style.endswith("!")
            before = gap


def _cell_spans(cell: Cell, glyphs: int) -> list[Span]:
    glyph = cell.glyph * glyphs
    if cell.style.endswith("!"):
        # Reverse only the mark: the glyph of a full block in reverse would look empty.
        return [(glyph, cell.style[:-1]), (cell.mark, cell.style)]
    return [(glyph + cell.mark, cell.style)]


def mark(lines: list[Line], grid: Grid, block_id: int, width: int) -> None:
    """Highlight the block's cell and its number, if its row is drawn."""
    x, y = grid.origin(block_id // grid.blocks_per_cell)
    if y >= len(lines):
        return
    cells = [(character, style) for text, style in lines[y] for character in text]
    glyph = x + grid.digits + 1 if grid.numbered else x
    letter = glyph + grid.glyphs
    number = x if grid.numbered else 0
    lit = [*range(number, number + grid.digits), *range(glyph, letter + 1)]
    if grid.gap == 1 and glyph and letter + 1 < width:
        cells += [(" ", "text")] * (letter + 2 - len(cells))
        cells[glyph - 1], cells[letter + 1] = ("[", ""), ("]", "")
        lit += [glyph - 1, letter + 1]
    for at in lit:
        character = cells[at][0]
        # Do not reverse a full block's glyph: it would look empty.
        cells[at] = (character, "text*" if character in _BRIGHT else "text*!")
    lines[y] = tuple(
        ("".join(character for character, _ in run), style)
        for style, run in groupby(cells, key=itemgetter(1))
    )


_BRIGHT = FILL[5:]

_LEGEND = (
    ((("█a", "hue0"),), "owned by a", "a's"),
    ((("▃b", "hue1"),), "part full", ""),
    ((("█2", "shared*"),), "shared by 2", "2 share"),
    (((f"{CACHED}a", "hue0-"),), "free, cached", "cached"),
    (((EMPTY * 2, "faint"),), "empty", "empty"),
    ((("█", "hue0"), ("a", "hue0!")), "touched this step", "touched"),
)
_OF_GROUPS = (
    ((("█a", "hue0"),), "used by a", "a's"),
    ((("▃+", "text"),), "by several", "several"),
    (((f"{CACHED}{EMPTY}", "cached"),), "free, cached", ""),
    (((EMPTY * 2, "faint"),), "empty", ""),
)
"""(example, words, short words; a short legend leaves out an entry without them)"""
_HIT = (("●", "good"),)
_SIGNS = (_HIT, "hit"), ((("→ ←", "accent"),), "copied"), ((("×", "bad"),), "evicted")
_HOST_SIGNS = (((("≡", "good"),), "rescued"),)
"""The host map explains the others."""
_DRAFT_SIGNS = (((DRAFT, DRAFT_STYLE),), "drafts"), (((UNDONE, "bad"),), "undone")


@lru_cache(64)  # one legend serves many frames
def _legend(blocks_per_cell: int, width: int, signs: tuple, more: tuple, used: tuple) -> Line:
    legend = _LEGEND if blocks_per_cell == 1 else _OF_GROUPS
    long = [(sign, words) for sign, words, _ in legend]
    short = [(sign, words) for sign, _, words in legend if words]
    if blocks_per_cell > 1:
        each = ((f"1 cell = {blocks_per_cell} blocks", "warn"),), ""
        return first_that_fits(width, explain(each, *long), explain(each, *short, gap=" "), each[0])
    return first_that_fits(
        width,
        explain(*long, *signs, *more),
        explain(*short, *signs, *more),
        *([explain(*short, *more, gap="  ")] if more else []),
        explain(*long, *used),
        explain(*short, *used),
        explain(*short, *used, gap=" "),
        *(explain(*short[a:b], *used, gap=" ") for a, b in ((0, 4), (0, 3), (1, 3), (2, 3))),
    )


def explain(*entries: tuple[tuple[Span, ...], str], gap: str = "   ") -> Line:
    spans: list[Span] = []
    for sign, words in entries:
        spans += [*sign, (f" {words}{gap}", "muted")]
    spans[-1] = (spans[-1][0].rstrip(), "muted")
    return tuple(spans)
