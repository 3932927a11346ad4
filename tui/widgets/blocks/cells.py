"""The cells of the block map: what is drawn for one block, or for a group of them.

The first character is how full the block is, the second whose: a letter for one owner, the
reference count for several, and for a cached block that nobody holds the letter of who left it. The
easy thing to get wrong is to draw a picture that cannot be read back: owners and counts here are
those of the fold, and a test reads them off the drawn lines.
"""

from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from minivllm.tui.state.model import DashboardModel

FILL = "▁▁▂▃▄▅▆▇█"
"""How full a block is, in eighths; an empty one that is owned still shows a line."""
CACHED, EMPTY, SEVERAL = "░", "·", "+"
_WHOLE = (FILL[-1], EMPTY)
"""Glyphs of cells that, if all in a group are alike, also stand for the group."""


class Cell(NamedTuple):
    """What is drawn for one block, or for a group of them."""

    glyph: str
    mark: str
    style: str


_FREE = Cell(EMPTY, EMPTY, "faint")


def block_cells(model: DashboardModel) -> list[Cell]:
    """One cell for each block.

    Built from the block tables and not block by block: all full blocks of a sequence look alike, so
    most of the map is one assignment each, and thousands of blocks fifteen times a second cost
    little.
    """
    fold, size = model.fold, model.header.block_size
    blocks, cells = fold.blocks, [_FREE] * len(fold.blocks)
    # A block that nobody holds any more joins the free queue only one event later; until then it is
    # one that has changed.
    for block_id in chain(fold.free_queue, model.changed):
        block = blocks[block_id]
        if block.hash is not None and block.ref_cnt == 0:
            cells[block_id] = _cached(model.last_owner_letter(block_id))
    filled: dict[int, int] = {}
    # All sequences and not only the running ones: a frame may fall between a block and its
    # admission.
    for seq_id, sequence in fold.sequences.items():
        letter, computed = model.letter(seq_id) or "?", sequence.num_computed_tokens
        hue = model.hue(letter)
        num_full = computed // size
        for entry, block_id in enumerate(sequence.block_table[num_full:], num_full):
            filled[block_id] = max(filled.get(block_id, 0), computed - entry * size)
            cells[block_id] = _owned(letter, _fill(filled[block_id], size), hue)
    # After all part full ones: of a block that several share, the fullest use counts.
    for seq_id, sequence in fold.sequences.items():
        letter = model.letter(seq_id) or "?"
        full = _owned(letter, FILL[-1], model.hue(letter))
        for block_id in sequence.block_table[: sequence.num_computed_tokens // size]:
            cells[block_id] = full
    for block_id, count in [
        (at, block.ref_cnt) for at, block in enumerate(blocks) if block.ref_cnt > 1
    ]:
        cells[block_id] = _shared(cells[block_id].glyph, count)
    for block_id in model.changed:
        cells[block_id] = _touched(cells[block_id])
    return cells


# Cells that look alike are the same object, so that two frames are compared in no time.


@lru_cache(256)
def _cached(letter: str | None) -> Cell:
    return Cell(CACHED, letter or EMPTY, "cached")


@lru_cache(1024)
def _owned(letter: str, glyph: str, hue: str) -> Cell:
    return Cell(glyph, letter, hue)


@lru_cache(256)
def _shared(glyph: str, count: int) -> Cell:
    return Cell(glyph, str(count) if count < 10 else SEVERAL, "shared*")


@lru_cache(2048)
def _touched(cell: Cell) -> Cell:
    return cell._replace(style=cell.style + "!")


def _fill(num_tokens: int, size: int) -> str:
    # Rounded down: only a full block looks full.
    return FILL[min(max(num_tokens, 0), size) * 8 // size]


def group_cells(cells: list[Cell], size: int) -> list[Cell]:
    """One cell for each `size` blocks: the part in use, and whose if all of it is one
    sequence's.
    """
    return [_group(tuple(cells[start : start + size])) for start in range(0, len(cells), size)]


def regroup(groups: list[Cell], before: list[Cell], cells: list[Cell], size: int) -> list[Cell]:
    """`groups`, which were made of the cells `before`, as `group_cells` would make them of `cells`.

    From one frame to the next some hundred of thousands of blocks change.
    """
    groups = groups.copy()
    changed = [
        at for at, (cell, old) in enumerate(zip(cells, before, strict=True)) if cell is not old
    ]
    for number in {at // size for at in changed}:
        groups[number] = _group(tuple(cells[number * size : (number + 1) * size]))
    return groups


@lru_cache(1 << 13)
def _group(members: tuple[Cell, ...]) -> Cell:
    # Most groups look as they did in the frame before, and many like each other.
    if members.count(members[0]) == len(members) and members[0].glyph in _WHOLE:
        return members[0]
    # Whoever holds a block draws it with one of `FILL`, however empty it is.
    used = [cell for cell in members if cell.glyph in FILL]
    changed = "!" if any(cell.style.endswith("!") for cell in members) else ""
    if used:
        marks = {cell.mark for cell in used}
        one = len(marks) == 1
        style = used[0].style.rstrip("!") if one else "text"
        # The part of the blocks that is in use, rounded down, but never nothing.
        glyph = FILL[max(len(used) * 8 // len(members), 1)]
        return Cell(glyph, marks.pop() if one else SEVERAL, style + changed)
    if any(cell.glyph == CACHED for cell in members):
        return Cell(CACHED, EMPTY, "cached" + changed)
    return Cell(EMPTY, EMPTY, "faint" + changed)
