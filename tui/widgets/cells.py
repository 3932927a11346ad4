"""The cells of the block map: what is drawn for one block, or for a group of them.

The first character is how full the block is, the second whose: a letter for one owner, the reference
count for several, and for a cached block that nobody holds the letter of who left it. The easy thing
to get wrong is to draw a picture that cannot be read back: owners and counts here are those of the
fold, and a test reads them off the drawn lines.
"""

from typing import NamedTuple

from minivllm.tui.letters import hue
from minivllm.tui.model import DashboardModel

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
    most of the map is one assignment each, and thousands of blocks fifteen times a second cost little.
    """
    fold, size = model.fold, model.header.block_size
    blocks, cells = fold.blocks, [_FREE] * len(fold.blocks)
    for block_id, block in enumerate(blocks):
        if block.hash is not None and block.ref_cnt == 0:
            cells[block_id] = Cell(CACHED, model.last_owner_letter(block_id) or EMPTY, "cached")
    shared: dict[int, int] = {}
    # All sequences and not only the running ones: a frame may fall between a block and its admission.
    for seq_id, sequence in fold.sequences.items():
        letter = model.letter(seq_id) or "?"
        full, left = _owned(letter, size, size), sequence.num_computed_tokens
        for block_id in sequence.block_table:
            if blocks[block_id].ref_cnt > 1:
                shared[block_id] = max(shared.get(block_id, 0), left)
            else:
                cells[block_id] = full if left >= size else _owned(letter, left, size)
            left -= size
    for block_id, num_tokens in shared.items():
        count = blocks[block_id].ref_cnt
        cells[block_id] = Cell(_fill(num_tokens, size), str(count) if count < 10 else SEVERAL, "shared*")
    for block_id in model.changed:
        cells[block_id] = cells[block_id]._replace(style=cells[block_id].style + "!")
    return cells


def _owned(letter: str, num_tokens: int, size: int) -> Cell:
    return Cell(_fill(num_tokens, size), letter, hue(letter))


def _fill(num_tokens: int, size: int) -> str:
    # Rounded down: only a full block looks full.
    return FILL[min(max(num_tokens, 0), size) * 8 // size]


def group_cells(model: DashboardModel, cells: list[Cell], size: int) -> list[Cell]:
    """One cell for each `size` blocks: the part in use, and whose if all of it is one sequence's."""
    blocks = model.fold.blocks
    groups = []
    for start in range(0, len(cells), size):
        members = cells[start : start + size]
        if members.count(members[0]) == len(members) and members[0].glyph in _WHOLE:
            groups.append(members[0])
            continue
        used = [cell for cell, block in zip(members, blocks[start : start + size], strict=True) if block.ref_cnt]
        changed = "!" if any(cell.style.endswith("!") for cell in members) else ""
        if used:
            marks = {cell.mark for cell in used}
            one = len(marks) == 1
            style = used[0].style.rstrip("!") if one else "text"
            # The part of the blocks that is in use, rounded down, but never nothing.
            glyph = FILL[max(len(used) * 8 // len(members), 1)]
            groups.append(Cell(glyph, marks.pop() if one else SEVERAL, style + changed))
        elif any(cell.glyph == CACHED for cell in members):
            groups.append(Cell(CACHED, EMPTY, "cached" + changed))
        else:
            groups.append(Cell(EMPTY, EMPTY, "faint" + changed))
    return groups
