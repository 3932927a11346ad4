"""Reads the drawn block map, and computes what it should show."""

from collections import defaultdict

from minivllm.tui.draw.lines import Line, text_of
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.blockmap import Grid, lay_out
from minivllm.tui.widgets.blocks.cells import CACHED, EMPTY, FILL


def ids_of(text: str) -> list[int]:
    """Block ids of a text such as `3 9-12 8 down to 5`."""
    found: list[int] = []
    for item in text.replace(" down to ", "-").split():
        first, _, last = item.partition("-")
        step = 1 if not last or int(last) >= int(first) else -1
        found += range(int(first), int(last or first) + step, step)
    return found


def without_legend(lines: list[Line]) -> list[Line]:
    """The rows of a map. The signs may have a row of their own above the last one."""
    return lines[:-2] if text_of(lines[-2]).startswith("● hit") else lines[:-1]


def read_cells(lines: list[Line], num_blocks: int, width: int, height: int) -> list[str]:
    """The two characters of every block in the drawn map of a panel without words."""
    return cells_of(lines, num_blocks, lay_out(num_blocks, width, height - 1))


def cells_of(lines: list[Line], num_blocks: int, grid: Grid) -> list[str]:
    assert grid.blocks_per_cell == 1
    cells: list[str] = []
    num_rows = grid.origin(num_blocks - 1)[1] + 1  # words may follow
    for line in without_legend(lines)[:num_rows]:
        text = text_of(line)
        if not text.strip():
            continue
        digits = len(str(num_blocks - 1))
        if grid.numbered:
            step = digits + 1 + grid.glyphs + 1 + grid.gap
            for start in range(0, len(text), step):
                number = text[start : start + digits]
                cell = text[start + digits + 1 : start + step - grid.gap]
                assert int(number) == len(cells)
                assert len(set(cell[:-1])) == 1
                cells.append(cell[-2:])
        else:
            assert int(text[:digits]) == len(cells)
            body, step = text[digits + 1 :], 2 + grid.gap
            cells += [body[start : start + 2] for start in range(0, len(body), step)]
    return cells


def expected_cells(model: DashboardModel) -> list[str]:
    """The same characters from the fold, without the map's code."""
    fold, size = model.fold, model.header.block_size
    owners: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for seq_id, sequence in fold.sequences.items():
        for logical, block_id in enumerate(sequence.block_table):
            tokens = min(max(sequence.num_computed_tokens - logical * size, 0), size)
            owners[block_id].append((seq_id, tokens))
    cells = []
    for block_id, block in enumerate(fold.blocks):
        held_by = owners[block_id]
        assert block.ref_cnt == len(held_by)
        if held_by:
            fill = "█" if block.hash else FILL[max(tokens for _, tokens in held_by) * 8 // size]
            owner = model.letter(held_by[0][0])
            cells.append(fill + (owner if len(held_by) == 1 else str(len(held_by))))
        elif block.hash is not None:
            cells.append(CACHED + (model.last_owner_letter(block_id) or EMPTY))
        else:
            cells.append(EMPTY * 2)
    return cells
