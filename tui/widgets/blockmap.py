"""Block map: every block of the KV cache, what is in it and whose it is.

A block takes two columns (`cells`). With room to spare each block also shows its number and a wider
glyph; with too many blocks for the room a cell stands for several, and says so. `lay_out` chooses.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from minivllm.tui.lines import Line, Span, first_that_fits
from minivllm.tui.model import DashboardModel
from minivllm.tui.widgets.cells import CACHED, EMPTY, Cell, block_cells, group_cells
from minivllm.tui.widgets.panel import Panel


class Grid(NamedTuple):
    """How the cells lie in the panel."""

    blocks_per_cell: int
    per_row: int
    glyphs: int
    """Columns for the fill glyph: more than one only where there is much room."""
    gap: int
    """Columns between cells."""
    numbered: bool
    """Each cell has its block's number, and not just each row."""
    spread: bool
    """An empty row between rows."""


class BlockMap(Panel):
    """All blocks in order of their ids, left to right, top to bottom."""

    HELP_TITLE = "KV cache blocks"
    HELP_TEXT = (
        "Every block of the KV cache: how full it is, then the letter of its owner, or a digit where several sequences "
        "share it; who writes into such a block copies it first. ░ is free but cached (a prompt that begins alike can still use it), ·· is empty; what the last step "
        "touched is reversed."
    )

    def title(self, model: DashboardModel, width: int) -> str:
        # Nothing that changes from step to step: a new title makes Textual paint the whole panel again.
        return f"KV cache  {len(model.fold.blocks):,} blocks of {model.header.block_size} tokens"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        map_height = max(height - 1, 1)
        grid = lay_out(len(model.fold.blocks), width, map_height)
        cells = block_cells(model)
        if grid.blocks_per_cell > 1:
            cells = group_cells(model, cells, grid.blocks_per_cell)
        lines = _draw(cells, grid, len(model.fold.blocks))[:map_height]
        lines.extend([()] * (height - 1 - len(lines)))
        if height > 1:
            lines.append(_legend(grid.blocks_per_cell, width))
        return lines


# Numbered, columns for the fill glyph, gap: from the roomiest to the densest.
_SIZES = (
    (True, 5, 3),
    (True, 4, 3),
    (True, 3, 3),
    (True, 2, 3),
    (True, 2, 2),
    (True, 1, 3),
    (True, 1, 2),
    (False, 1, 1),
    (False, 1, 0),
)


def lay_out(num_blocks: int, width: int, height: int) -> Grid:
    """The most legible grid that holds all blocks in `width` x `height` cells."""
    digits = len(str(max(num_blocks - 1, 0)))
    label = digits + 1
    for numbered, glyphs, gap in _SIZES:
        cell_width = glyphs + 1 + gap + (label if numbered else 0)
        per_row = _round_down((width + gap - (0 if numbered else label)) // cell_width)
        rows = -(-num_blocks // per_row)
        spread = rows * 2 - 1 <= height
        # Wide glyphs need air around them, and short rows are not worth them.
        if rows <= height and (glyphs == 1 or (spread and per_row >= 8)):
            return Grid(1, per_row, glyphs, gap, numbered, spread)
    per_row = _round_down((width - label) // 2)
    blocks_per_cell = 2
    while -(-num_blocks // (blocks_per_cell * per_row)) > height:
        blocks_per_cell *= 2
    return Grid(blocks_per_cell, per_row, 1, 0, numbered=False, spread=False)


def _round_down(per_row: int) -> int:
    """A row length that makes round numbers at the left: a multiple of 8, or 4, 2, 1 where it is tight."""
    if per_row >= 8:
        return per_row // 8 * 8
    return 4 if per_row >= 4 else 2 if per_row >= 2 else 1


def _draw(cells: list[Cell], grid: Grid, num_blocks: int) -> list[Line]:
    lines: list[Line] = []
    digits = len(str(max(num_blocks - 1, 0)))
    for start in range(0, len(cells), grid.per_row):
        row = cells[start : start + grid.per_row]
        if lines and grid.spread:
            lines.append(())
        if grid.numbered:
            lines.append(_numbered_row(row, start, grid, digits))
        else:
            label = (f"{start * grid.blocks_per_cell:>{digits}} ", "faint")
            lines.append((label, *_runs(row, " " * grid.gap)))
    return lines


def _numbered_row(cells: list[Cell], start: int, grid: Grid, digits: int) -> Line:
    spans: list[Span] = []
    for offset, cell in enumerate(cells):
        gap = grid.gap if offset else 0
        spans.append((f"{'':{gap}}{start + offset:>{digits}} ", "faint"))
        spans += _cell_spans(cell, grid.glyphs)
    return tuple(spans)


def _runs(cells: list[Cell], gap: str) -> Iterator[Span]:
    """The cells of a row, neighbours of one style in one piece: most of a large map is such runs."""
    for run_number, (style, run) in enumerate(groupby(cells, key=_style_of)):
        if run_number and gap:
            yield gap, "faint"
        if style.endswith("!"):
            for number, cell in enumerate(run):
                if number and gap:
                    yield gap, "faint"
                yield from _cell_spans(cell, 1)
        else:
            yield gap.join([cell.glyph + cell.mark for cell in run]), style


_style_of = attrgetter("style")


def _cell_spans(cell: Cell, glyphs: int) -> list[Span]:
    glyph = cell.glyph * glyphs
    if cell.style.endswith("!"):
        # Only the mark is reversed: a full block in reverse would look empty.
        return [(glyph, cell.style[:-1]), (cell.mark, cell.style)]
    return [(glyph + cell.mark, cell.style)]


# Signs of the legend: the characters as they stand in the map.
_OWNED, _PART, _SHARED = (("█a", "hue0"),), (("▃b", "hue1"),), (("█2", "shared*"),)
_CACHED, _FREE, _TOUCHED = ((f"{CACHED}a", "cached"),), ((EMPTY * 2, "faint"),), (("█", "hue0"), ("a", "hue0!"))
_ALL, _MIXED = (("█a", "hue0"),), (("▃+", "text"),)
_CACHED_GROUP = ((f"{CACHED}{EMPTY}", "cached"),)


def _legend(blocks_per_cell: int, width: int) -> Line:
    """The signs on one line, in as many words as fit."""
    if blocks_per_cell > 1:
        each = ((f"1 cell = {blocks_per_cell} blocks", "warn"),)
        return first_that_fits(
            width,
            _explain(
                (each, ""),
                (_ALL, "used by a"),
                (_MIXED, "by several"),
                (_CACHED_GROUP, "free, cached"),
                (_FREE, "empty"),
            ),
            _explain((each, ""), (_ALL, "a's"), (_MIXED, "several")),
        )
    return first_that_fits(
        width,
        _explain(
            (_OWNED, "owned by a"),
            (_PART, "part full"),
            (_SHARED, "shared by 2"),
            (_CACHED, "free, cached"),
            (_FREE, "empty"),
            (_TOUCHED, "touched this step"),
        ),
        _explain(
            (_OWNED, "a's"), (_SHARED, "2 share"), (_CACHED, "free, cached"), (_FREE, "empty"), (_TOUCHED, "touched")
        ),
        _explain((_OWNED, "a's"), (_SHARED, "2 share"), (_CACHED, "cached"), (_FREE, "empty"), gap=" "),
    )


def _explain(*entries: tuple[tuple[Span, ...], str], gap: str = "   ") -> Line:
    spans: list[Span] = []
    for sign, words in entries:
        spans += [*sign, (f" {words}{gap}", "muted")]
    spans[-1] = (spans[-1][0].rstrip(), "muted")
    return tuple(spans)
