"""Block map: every block of the KV cache in two columns, what is in it and whose it is.

The first column is how full the block is, the second whose: a letter for one owner, the reference
count for several, and for a cached block that nobody holds the letter of who left it. With room to
spare each block also shows its number; with too many blocks for the room a cell stands for several,
and says so. The easy thing to get wrong is to draw a picture that cannot be read back: owners and
counts here are those of the fold, and a test reads them off the drawn lines.
"""

from typing import NamedTuple

from minivllm.tui.letters import hue
from minivllm.tui.lines import Line, Span, first_that_fits
from minivllm.tui.model import DashboardModel, Owner
from minivllm.tui.widgets.panel import Panel

FILL = "▁▁▂▃▄▅▆▇█"
"""How full a block is, in eighths; an empty one that is owned still shows a line."""
CACHED, EMPTY, SEVERAL = "░", "·", "+"


class Cell(NamedTuple):
    """What is drawn for one block, or for a group of them."""

    glyph: str
    mark: str
    style: str


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
        "share it. ░ is free but cached (a prompt that begins alike can still use it), ·· is empty; what the last step "
        "touched is reversed."
    )

    def title(self, model: DashboardModel, width: int) -> str:
        use = model.pool_use()
        each = f", {model.header.block_size} tokens each" if width >= 52 else ""
        return f"KV cache  {use.used:,} of {len(model.fold.blocks):,} blocks used{each}"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        map_height = max(height - 1, 1)
        grid = lay_out(len(model.fold.blocks), width, map_height)
        cells = block_cells(model)
        if grid.blocks_per_cell > 1:
            cells = group_cells(model, cells, grid.blocks_per_cell)
        lines = _draw(cells, grid, width, len(model.fold.blocks))[:map_height]
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


def block_cells(model: DashboardModel) -> list[Cell]:
    """One cell for each block."""
    fold, size = model.fold, model.header.block_size
    owners, changed = model.owners(), model.changed
    cells = []
    for block_id, block in enumerate(fold.blocks):
        if block.ref_cnt:
            cell = _owned(model, block.ref_cnt, owners.get(block_id, []), size)
        elif block.hash is not None:
            cell = Cell(CACHED, model.last_owner_letter(block_id) or EMPTY, "cached")
        else:
            cell = _EMPTY_CELL
        cells.append(cell._replace(style=cell.style + "!") if block_id in changed else cell)
    return cells


_EMPTY_CELL = Cell(EMPTY, EMPTY, "faint")


def _owned(model: DashboardModel, ref_cnt: int, owners: list[Owner], size: int) -> Cell:
    num_tokens = max((owner.num_tokens for owner in owners), default=0)
    glyph = FILL[-(-num_tokens * 8 // size)]
    if ref_cnt > 1:
        return Cell(glyph, str(ref_cnt) if ref_cnt < 10 else SEVERAL, "shared*")
    letter = model.letter(owners[0].seq_id) if owners else None
    return Cell(glyph, letter or "?", hue(letter))


def group_cells(model: DashboardModel, cells: list[Cell], size: int) -> list[Cell]:
    """One cell for each `size` blocks: the part in use, and whose if all of it is one sequence's."""
    blocks = model.fold.blocks
    groups = []
    for start in range(0, len(cells), size):
        members = cells[start : start + size]
        used = [cell for cell, block in zip(members, blocks[start : start + size], strict=True) if block.ref_cnt]
        changed = "!" if any(cell.style.endswith("!") for cell in members) else ""
        if used:
            marks = {cell.mark for cell in used}
            one = len(marks) == 1
            style = used[0].style.rstrip("!") if one else "text"
            glyph = FILL[max(len(used) * 8 // len(members), 1)]
            groups.append(Cell(glyph, marks.pop() if one else SEVERAL, style + changed))
        elif any(cell.glyph == CACHED for cell in members):
            groups.append(Cell(CACHED, EMPTY, "cached" + changed))
        else:
            groups.append(Cell(EMPTY, EMPTY, "faint" + changed))
    return groups


def _draw(cells: list[Cell], grid: Grid, width: int, num_blocks: int) -> list[Line]:
    digits = len(str(max(num_blocks - 1, 0)))
    lines: list[Line] = []
    for start in range(0, len(cells), grid.per_row):
        # Built by hand and not with `Row`: this is the hot path, and every width is known.
        spans: list[Span] = [] if grid.numbered else [(f"{start * grid.blocks_per_cell:>{digits}} ", "faint")]
        gap = " " * grid.gap
        for offset, (glyph, mark, style) in enumerate(cells[start : start + grid.per_row]):
            if grid.numbered:
                spans.append((f"{gap if offset else ''}{start + offset:>{digits}} ", "faint"))
            elif offset and gap:
                spans.append((gap, "faint"))
            if style.endswith("!"):
                # Only the mark is reversed: a full block in reverse would look empty.
                spans.append((glyph * grid.glyphs, style[:-1]))
                spans.append((mark, style))
            else:
                spans.append((glyph * grid.glyphs + mark, style))
        if lines and grid.spread:
            lines.append(())
        lines.append(tuple(spans))
    return lines


def _legend(blocks_per_cell: int, width: int) -> Line:
    if blocks_per_cell > 1:
        each = f"1 cell = {blocks_per_cell} blocks  "
        return first_that_fits(
            width,
            (
                (each, "warn"),
                ("█a", "hue0"),
                (" all used by a  ", "muted"),
                ("▃+", "text"),
                (" part used by several  ", "muted"),
                ("░·", "cached"),
                (" cached  ", "muted"),
                ("··", "faint"),
                (" empty", "muted"),
            ),
            ((each, "warn"), ("█a", "hue0"), (" a's ", "muted"), ("░·", "cached"), (" cached ", "muted")),
        )
    return first_that_fits(
        width,
        (
            ("█a", "hue0"),
            (" owned by a   ", "muted"),
            ("▃b", "hue1"),
            (" part full   ", "muted"),
            ("█2", "shared*"),
            (" shared by 2   ", "muted"),
            ("░a", "cached"),
            (" free, cached   ", "muted"),
            ("··", "faint"),
            (" empty   ", "muted"),
            ("█", "hue0"),
            ("a", "hue0!"),
            (" touched this step", "muted"),
        ),
        (
            ("█a", "hue0"),
            (" a's   ", "muted"),
            ("█2", "shared*"),
            (" 2 share   ", "muted"),
            ("░a", "cached"),
            (" free, cached   ", "muted"),
            ("··", "faint"),
            (" empty   ", "muted"),
            ("█", "hue0"),
            ("a", "hue0!"),
            (" touched", "muted"),
        ),
        (
            ("█a", "hue0"),
            (" a's ", "muted"),
            ("█2", "shared*"),
            (" 2 share ", "muted"),
            ("░a", "cached"),
            (" cached ", "muted"),
            ("··", "faint"),
            (" empty", "muted"),
        ),
    )
