"""The block map is read back off its lines and compared with the fold: it can show nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from support.tui.drawn_blocks import expected_cells, read_cells

from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.events import types as ev
from minivllm.runtime.step_result import StepResult, Watch
from minivllm.tui.draw.lines import text_of
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.blockmap import BlockMap, lay_out
from minivllm.tui.widgets.blocks.cells import CACHED, EMPTY, FILL, block_cells, group_cells


@pytest.mark.parametrize("size", [(37, 11), (68, 16), (112, 40)])
@pytest.mark.parametrize("scenario", ["shared_prefix", "memory_pressure", "samples", "beams"])
def test_the_drawn_owners_and_counts_are_those_of_the_fold(
    scenario: str, size: tuple[int, int], request: pytest.FixtureRequest
) -> None:
    stage = request.getfixturevalue(scenario)
    model, blockmap = DashboardModel(stage.header), BlockMap()
    seen: set[str] = set()
    for number, event in enumerate(stage.run().events):
        model.apply(event)
        # Not only between steps: a frame may fall anywhere.
        if number % 7 == 0 or isinstance(event, ev.StepEnd):
            cells = read_cells(blockmap.lines(model, *size), stage.header.num_blocks, *size)
            assert cells == expected_cells(model)
            seen.update(cell[0] for cell in cells)
            seen.update(cell[1] for cell in cells)
    assert {EMPTY, "█", "▁", "▄", "a"} <= seen
    assert {
        "memory_pressure": {CACHED, "h"},
        "shared_prefix": {CACHED, "2", "4"},
        "samples": {CACHED, "2", "3", "c", "d"},
        "beams": {CACHED, "2", "3", "j"},
    }[scenario] <= seen


def test_a_copied_block_is_touched_with_its_copy_and_the_copy_is_its_writers_own(samples) -> None:
    model = DashboardModel(samples.header)
    for event in samples.run(2).events:
        model.apply(event)
    copies = [event for event in samples.events if isinstance(event, ev.BlockCopied)]
    cells = block_cells(model)
    assert len(copies) == 2
    for event in copies:
        assert {event.src, event.dst} <= model.changed
        assert cells[event.dst].mark == model.letter(event.seq_id)
    # The last sample owns the block that all had: nobody copied it for that one.
    assert {cells[event.src].mark for event in copies} == {model.letter("r0.2")}
    assert all(cells[block_id].mark == "3" for block_id in model.fold.sequences["r0.0"].block_table[:-1])


@pytest.mark.parametrize("scenario", ["shared_prefix", "memory_pressure", "samples", "beams"])
def test_every_block_that_a_step_writes_into_is_touched_in_that_step(
    scenario: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = request.getfixturevalue(scenario)
    size, written = stage.header.block_size, {}

    def execute(plan: SchedulerOutput, watch: Watch) -> StepResult:
        """The blocks that the model runner would write into, read off the plan that it gets."""
        written[plan.step] = {
            item.sequence.block_table[position // size].block_id
            for item in plan.scheduled
            for position in range(item.start, item.start + item.num_tokens)
            if position >= item.sequence.num_cached_tokens
        }
        return StepResult(logits=None)

    monkeypatch.setattr(stage.engine._stepper.runner, "execute_model", execute)
    model = DashboardModel(stage.header)
    for event in stage.run().events:
        model.apply(event)
        if isinstance(event, ev.StepEnd):
            assert written[event.step] <= model.changed
            assert {model.ages.blocks[block_id].touched for block_id in written[event.step]} <= {event.step}
    assert len(written) > 20


def test_a_block_that_nobody_wrote_into_is_not_touched(stage, ask) -> None:
    one = stage([ask("r0", "a b c d e f g h i j", "k l m n")])
    model = DashboardModel(one.header)
    for event in one.run(3).events:
        model.apply(event)
    table = model.fold.sequences["r0.0"].block_table
    assert model.changed == {table[1]}
    assert model.ages.blocks[table[0]].touched < model.fold.step == model.ages.blocks[table[1]].touched


def test_only_the_marks_of_touched_blocks_are_reversed(shared_prefix) -> None:
    model, blockmap = DashboardModel(shared_prefix.header), BlockMap()
    for event in shared_prefix.run(25).events:
        model.apply(event)
        reversed_marks = [
            text for line in blockmap.lines(model, 68, 16)[:-1] for text, style in line if style.endswith("!")
        ]
        assert len(reversed_marks) == len(model.changed)
        assert all(len(mark) == 1 for mark in reversed_marks)


@given(st.integers(1, 5000), st.integers(12, 220), st.integers(2, 60))
def test_every_block_has_a_place_within_the_room(num_blocks: int, width: int, height: int) -> None:
    grid = lay_out(num_blocks, width, height)
    digits = len(str(num_blocks - 1))
    rows = -(-num_blocks // (grid.per_row * grid.blocks_per_cell))
    assert rows + (rows - 1 if grid.spread else 0) <= height
    cell = grid.glyphs + 1 + (digits + 1 if grid.numbered else 0)
    row_width = grid.per_row * cell + (grid.per_row - 1) * grid.gap + (0 if grid.numbered else digits + 1)
    assert row_width <= width


def test_few_blocks_are_drawn_with_their_numbers_and_many_without() -> None:
    assert lay_out(64, 68, 15).numbered
    assert lay_out(64, 112, 40).glyphs > 1
    assert not lay_out(256, 68, 15).numbered
    assert lay_out(256, 68, 15).blocks_per_cell == 1
    assert lay_out(4096, 68, 15).blocks_per_cell > 1


@pytest.mark.parametrize("size", [2, 3, 8])
def test_a_group_shows_how_much_is_used_and_whose(size: int, memory_pressure) -> None:
    model = DashboardModel(memory_pressure.header)
    for event in memory_pressure.run(45).events:
        model.apply(event)
    cells = block_cells(model)
    blocks = model.fold.blocks
    groups = group_cells(cells, size)
    assert len(groups) == -(-len(cells) // size)
    for number, group in enumerate(groups):
        members = range(number * size, min((number + 1) * size, len(cells)))
        used = [i for i in members if blocks[i].ref_cnt]
        marks = {cells[i].mark for i in used}
        assert group.mark == (marks.pop() if len(marks) == 1 else "+" if marks else EMPTY)
        if used:
            assert group.glyph == FILL[max(len(used) * 8 // len(members), 1)] or len(used) == len(members)
        else:
            assert (group.glyph == CACHED) == any(blocks[i].hash for i in members)
        assert group.style.endswith("!") == any(i in model.changed for i in members)


@pytest.mark.parametrize("width", [20, 37, 68, 112])
@pytest.mark.parametrize("num_blocks", [8, 64, 256, 4096])
def test_no_line_of_the_map_is_wider_than_its_panel(width: int, num_blocks: int, stage, ask) -> None:
    run = stage([ask("r0", "a b c", "d e f", max_tokens=20)], num_blocks=num_blocks).run(1)
    model = DashboardModel(run.header)
    for event in run.events:
        model.apply(event)
    lines = BlockMap().lines(model, width, 10)
    assert len(lines) == 10
    assert all(cell_len(text_of(line)) <= width for line in lines)
    assert ("1 cell = " in text_of(lines[-1])) == (lay_out(num_blocks, width, 9).blocks_per_cell > 1)
