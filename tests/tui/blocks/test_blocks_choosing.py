"""On the block map and in the free queue every block can be chosen, and what is chosen is found at once."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tui.drawn_blocks import read_cells

from minivllm.tui.draw.lines import highlight, target_at, targets_of, text_of
from minivllm.tui.draw.selection import Selection, block
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.blockmap import BlockMap, lay_out
from minivllm.tui.widgets.blocks.cells import block_cells
from minivllm.tui.widgets.blocks.freequeue import FreeQueue


def model_of(stage, steps: int) -> DashboardModel:
    model = DashboardModel(stage.header)
    for event in stage.run(steps).events:
        model.apply(event)
    return model


def choosing(panel, block_id: int | None):
    panel.context = SimpleNamespace(selection=Selection(block_id=block_id), ascii=False)
    return panel


@given(st.integers(1, 5000), st.integers(12, 220), st.integers(2, 60))
def test_every_cell_is_found_where_it_is_drawn_and_nowhere_else(num_blocks: int, width: int, height: int) -> None:
    grid = lay_out(num_blocks, width, height)
    num_cells = -(-num_blocks // grid.blocks_per_cell)
    found: dict[int, list[tuple[int, int]]] = {}
    for y in range(height):
        for x in range(width):
            cell = grid.cell_at(x, y)
            if cell is not None and cell < num_cells:
                found.setdefault(cell, []).append((x, y))
    assert sorted(found) == list(range(num_cells))
    for cell, places in found.items():
        assert places[0] == grid.origin(cell)
        assert len(places) == grid.pitch - grid.gap
        assert len({y for _, y in places}) == 1


@pytest.mark.parametrize(("width", "height", "num_blocks"), [(112, 40, 48), (68, 16, 64), (37, 11, 64), (68, 16, 400)])
def test_only_the_chosen_cell_and_its_number_are_bright_and_the_map_stays_readable(
    width: int, height: int, num_blocks: int, stage, ask
) -> None:
    model = model_of(stage([ask("r0", "word " * 90, "an answer " * 9)], num_blocks=num_blocks), 6)
    plain = BlockMap().lines(model, width, height)
    cells = [cell.glyph + cell.mark for cell in block_cells(model)]
    grid = lay_out(num_blocks, width, height - 1)
    for chosen in (0, 1, 11, num_blocks - 1):
        lines = choosing(BlockMap(), chosen).lines(model, width, height)
        assert read_cells(lines, num_blocks, width, height) == cells
        assert [y for y in range(height) if lines[y] != plain[y]] == [grid.origin(chosen)[1]]
        lit = [text for text, style in lines[grid.origin(chosen)[1]] if style.startswith("text*")]
        number = str(chosen if grid.numbered else chosen // grid.per_row * grid.per_row)
        shown = "".join(lit).replace("[", "").replace("]", "").split()
        assert shown[0].startswith(number)
        assert "".join(shown).endswith(cells[chosen])
        assert ("[" in "".join(lit)) == (grid.gap == 1)


def test_a_block_that_this_run_does_not_have_is_not_marked(shared_prefix) -> None:
    model = model_of(shared_prefix, 5)
    assert choosing(BlockMap(), 64).lines(model, 68, 16) == BlockMap().lines(model, 68, 16)


def test_in_a_map_of_groups_the_cell_with_the_chosen_block_is_marked(stage, ask) -> None:
    model = model_of(stage([ask("r0", "a b c", "d e f")], num_blocks=4096), 1)
    grid = lay_out(4096, 68, 15)
    lines = choosing(BlockMap(), 4095).lines(model, 68, 16)
    x, y = grid.origin(4095 // grid.blocks_per_cell)
    assert text_of(lines[y])[x : x + 2] == "··"
    assert lines[y][-1] == ("··", "text*!") and lines[y][0][1] == "text*!"


def test_the_cursor_goes_through_the_map_block_by_block(shared_prefix) -> None:
    panel = choosing(BlockMap(), None)
    assert panel.targets() == []
    panel._model = model_of(shared_prefix, 5)
    assert panel.targets() == [block(block_id) for block_id in range(64)]


def test_every_block_of_the_free_queue_can_be_chosen_where_it_stands(memory_pressure) -> None:
    model = model_of(memory_pressure, 40)
    lines = FreeQueue().lines(model, 60, 4)
    assert targets_of(lines) == [block(block_id) for block_id in model.fold.free_queue]
    first = next(iter(model.fold.free_queue))
    selection = Selection()
    selection.choose(block(first))
    (span,) = [s for line in lines for s in highlight(line, selection) if s not in line]
    assert str(first) in span[0]
    assert target_at(lines[0], text_of(lines[0]).index(str(first))) == block(first)
