"""The block map is read back from its lines and compared with the fold."""

import re
from collections import defaultdict
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine.random_runs import folded
from support.tui.drawn_blocks import expected_cells, read_cells, without_legend
from support.tui.shown import ask_why, moments, rows
from support.tui.stages import Stage

from minivllm.cli.recordings.once import summary
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.events import types as ev
from minivllm.events.recording.recording import Recording
from minivllm.tui.answers.why_tokens import how_to_explain
from minivllm.tui.context import Context
from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.selection import Selection, block
from minivllm.tui.state.model import MODELS
from minivllm.tui.widgets.blocks.blockmap import BlockMap, lay_out
from minivllm.tui.widgets.blocks.cells import CACHED, EMPTY, FILL, block_cells, group_cells, signs

OF_VLLM = Path(__file__).parents[3] / "docs/assets/recordings/vllm/in-step.jsonl"


def choosing(block_id: int | None, *, still: bool = False, **options: object) -> BlockMap:
    panel = BlockMap(**options)
    panel.context = Context(None, selection=Selection(block_id=block_id), still=still)
    return panel


@pytest.fixture
def large_blocks(stage, ask) -> Stage:
    """Blocks of 16 tokens: an eighth of a block is two tokens, so some fills are rounded down."""
    asks = [ask(f"r{number}", "word " * 40, "an answer " * 30, number) for number in range(8)]
    return stage(asks, block_size=16)


@pytest.mark.parametrize("scenario", ["large_blocks", "beams"], indirect=True)
def test_the_drawn_owners_and_counts_are_those_of_the_fold(scenario) -> None:
    blockmap, seen = BlockMap(shows_words=False), set()
    for number, (model, event) in enumerate(moments(scenario.run())):
        # Not only between steps: a frame may be drawn at any time.
        if number % 7 == 0 or isinstance(event, ev.StepEnd):
            size = ((37, 11), (68, 16), (112, 40))[number % 3]
            lines = blockmap.lines(model, *size)
            cells = read_cells(lines, scenario.header.num_blocks, *size)
            assert cells == expected_cells(model)
            seen.update(sign for cell in cells for sign in cell[:2])
            spans = [span for line in without_legend(lines) for span in line]
            lit = [text for text, style in spans if style.endswith("!")]
            assert len(lit) == len(model.ages.changed) and set(map(len, lit)) <= {1}
    assert seen >= {EMPTY, CACHED, "█", "▁", "▄", "a", "2"}


@pytest.mark.parametrize("scenario", ["memory_pressure", "samples"], indirect=True)
def test_the_touched_blocks_are_those_that_the_step_writes_or_registers(scenario) -> None:
    size, written, named = scenario.header.block_size, {}, defaultdict(set)

    def note(plan: SchedulerOutput, watch: object) -> None:
        """Record the blocks that the plan of a step writes into."""
        written[plan.step] = {
            item.sequence.block_table[position // size].block_id
            for item in plan.scheduled
            for position in range(item.start, item.start + item.num_tokens)
            if position >= item.sequence.num_cached_tokens
        }

    scenario.engine.core.runner.plain.before = note
    for model, event in moments(scenario.run()):
        named[event.step] |= {
            getattr(event, name) for name in ("block_id", "src", "dst") if hasattr(event, name)
        }
        if isinstance(event, ev.StepEnd):
            assert model.ages.changed == written[event.step] | named[event.step]
    assert len(written) > 20


@pytest.mark.parametrize("size", [2, 3, 8])
def test_a_group_shows_how_much_is_used_and_whose(size: int, memory_pressure) -> None:
    model = folded(memory_pressure.run(71))  # 9 blocks used, 14 cached, 1 empty
    cells, blocks = block_cells(model), model.fold.blocks
    groups = group_cells(cells, size)
    assert len(groups) == -(-len(cells) // size)
    for number, group in enumerate(groups):
        members = range(number * size, min((number + 1) * size, len(cells)))
        used = [i for i in members if blocks[i].ref_cnt]
        marks = {cells[i].mark for i in used}
        assert group.mark == (marks.pop() if len(marks) == 1 else "+" if marks else EMPTY)
        if used:
            eighths = sum(FILL.rindex(cells[i].glyph) for i in used)
            assert group.glyph == FILL[max(eighths // len(members), 1)]
        else:
            assert (group.glyph == CACHED) == any(blocks[i].hash for i in members)
        assert group.style.endswith("!") == any(i in model.ages.changed for i in members)
    # Two rows of 4 cells for 24 blocks: each row begins with the number of its first block.
    shown = rows(BlockMap(), model, 16, 3)[:2]
    assert [re.match(r" *(\d+)", row)[1] for row in shown] == ["0", "16"]


@settings(max_examples=25)
@given(st.integers(1, 5000), st.integers(12, 220), st.integers(2, 60))
def test_every_block_has_a_cell_and_is_found_there(num_blocks, width, height) -> None:
    grid = lay_out(num_blocks, width, height)
    num_cells = -(-num_blocks // grid.blocks_per_cell)
    found: dict[int | None, list[tuple[int, int]]] = defaultdict(list)
    for y, x in product(range(height), range(width)):
        found[grid.cell_at(x, y)].append((x, y))
    found = {cell: places for cell, places in found.items() if cell in range(num_cells)}
    assert sorted(found) == list(range(num_cells))
    for cell, places in found.items():
        assert places[0] == grid.origin(cell)
        assert len(places) == grid.pitch - grid.gap and len({y for _, y in places}) == 1


@pytest.mark.parametrize(
    ("scenario", "still", "signs_seen"),
    [("memory_pressure", False, "●×"), ("memory_pressure", True, "●×"), ("beams", False, "→←")],
    indirect=["scenario"],
)
def test_signs_show_hits_copies_and_evictions_of_the_last_steps(scenario, still, signs_seen):
    """A sign is bold, normal and faint in three steps; in a still picture it lasts one step."""
    shades, blockmap = ("*", "", "faint")[: 1 if still else 3], choosing(None, still=still)
    happened: dict[int, tuple[int, str]] = {}
    seen: set[str] = set()
    for number, (model, event) in enumerate(moments(scenario.run())):
        match event:
            case ev.BlockCopied():
                happened[event.src], happened[event.dst] = (event.step, "→"), (event.step, "←")
            case ev.BlockHit():
                happened[event.block_id] = event.step, "●"
            case ev.BlockEvicted():
                happened[event.block_id] = event.step, "×"
        if number % 5 == 0 or isinstance(event, ev.StepEnd):
            expected = {
                block_id: (sign, shades[model.fold.step - step])
                for block_id, (step, sign) in happened.items()
                if model.fold.step - step < len(shades)
            }
            drawn = enumerate(cell.sign for cell in block_cells(model, fades=not still))
            assert expected == {
                at: (text, "*" if "*" in style else "faint" if style == "faint" else "")
                for at, (text, style) in ((at, sign) for at, sign in drawn if sign is not None)
            }
            # Each is drawn beside its block, where the map has room.
            shown = " ".join(map(text_of, without_legend(blockmap.lines(model, 112, 40))))
            for block_id, (sign, _) in expected.items():
                assert re.search(rf"\b{block_id}{sign}", shown)
            legend = text_of(blockmap.lines(model, 38, 11)[-1])
            assert {sign for sign, _ in expected.values()} <= set(legend)
            seen |= {sign for sign, _ in expected.values()}
    assert seen == set(signs_seen)


def test_drafts_and_the_slots_of_wrong_drafts_have_signs(drafts) -> None:
    seen = set()
    for model, event in moments(drafts.run()):
        if isinstance(event, ev.DraftVerified):
            (item,) = (item for item in model.fold.scheduled if item.seq_id == event.seq_id)
            last = (item.num_computed_tokens + item.num_tokens - 1) // model.header.block_size
            sign = signs(model).get(model.fold.sequences[event.seq_id].block_table[last], ("", ""))
            is_wrong = event.num_accepted < len(item.draft_token_ids)
            assert sign[0] in ("~→←" if is_wrong else "→←")
            seen.add(sign[0])
    assert "~" in seen


@pytest.mark.parametrize("room", [(112, 40, 48), (37, 11, 64), (68, 16, 400)])
def test_only_the_selected_cell_and_its_number_are_bright(room, stage, ask) -> None:
    width, height, num_blocks = room
    model = folded(stage([ask("r0", "word " * 90, "an answer " * 9)], num_blocks=num_blocks).run(6))
    plain = choosing(None, shows_words=False).lines(model, width, height)
    cells = [cell.glyph + cell.mark for cell in block_cells(model)]
    grid = lay_out(num_blocks, width, height - 1)
    for chosen in (0, 11, num_blocks - 1):
        lines = choosing(chosen, shows_words=False).lines(model, width, height)
        assert read_cells(lines, num_blocks, width, height) == cells
        assert [y for y in range(height) if lines[y] != plain[y]] == [grid.origin(chosen)[1]]
        lit = [text for text, style in lines[grid.origin(chosen)[1]] if style.startswith("text*")]
        number = str(chosen if grid.numbered else chosen // grid.per_row * grid.per_row)
        shown = "".join(lit).replace("[", "").replace("]", "").split()
        assert shown[0].startswith(number)
        assert "".join(shown).endswith(cells[chosen])


def test_blocks_with_their_words_fill_the_rows_under_a_map_of_few_blocks(shared_prefix) -> None:
    model, blockmap = folded(shared_prefix.run(26)), BlockMap()
    shown = rows(blockmap, model, 112, 40)
    assert shown[:5] == rows(BlockMap(shows_words=False), model, 112, 40)[:5]
    assert any("You are a careful assistant" in row for row in shown)
    # Even a small map has rows for the words that are being written.
    shown = [text_of(line) for line in blockmap.lines(model, 47, 11)]
    for seq_id in model.fold.running[:3]:
        newest = model.fold.sequences[seq_id].block_table[-1]
        row = next(row for row in shown if row.startswith(f"▌{newest:>2} "))
        assert model.letter(seq_id) in row and "╴" in row
    grid, count = blockmap._lay_out(model, 47, 10)
    assert (grid.blocks_per_cell, count) == (1, len(model.fold.blocks))


def test_of_a_vllm_the_null_block_is_neither_counted_nor_free_and_no_token_is_explained() -> None:
    recording = Recording(OF_VLLM, MODELS)  # of a pool of 12 blocks, apart from the null block
    model = recording.view_at_step(45)
    title, map_ = BlockMap().title(model, 80), block_cells(model)
    assert "12 blocks" in title and "12 of 32" in summary(model.fold)[1]
    assert map_[0].glyph == " " != map_[1].glyph
    assert "explains no tokens" in how_to_explain(Context(None), model, None)
    assert "null block" in ask_why(model, block(0)) and "of 12" in ask_why(model)
    recording.close()
