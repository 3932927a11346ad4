"""The prefix tree: chains, what a lookup found in them, and which part of a large cache is on the screen."""

from types import SimpleNamespace

import pytest
from rich.cells import cell_len

from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.selection import Selection, block
from minivllm.tui.state.chains import PrefixIndex
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.inspector import Inspector
from minivllm.tui.widgets.blocks.prefix_tree import PrefixTree


def model_of(stage, steps: int = 10_000) -> DashboardModel:
    model = DashboardModel(stage.header)
    for event in stage.run(steps).events:
        model.apply(event)
    return model


def tree(block_id: int | None = None, seq_id: str | None = None) -> PrefixTree:
    panel = PrefixTree()
    panel.context = SimpleNamespace(selection=Selection(block_id=block_id, seq_id=seq_id), ascii=False)
    return panel


def rows(panel: PrefixTree, model: DashboardModel, width: int = 80, height: int = 20) -> list[str]:
    return [text_of(line).rstrip() for line in panel.lines(model, width, height)]


def cache(stage, ask, *chains: str, num_blocks: int = 400) -> DashboardModel:
    """A model with these chains of hashes, by hand: `ab` is a block a and b after it; nobody holds them."""
    model = DashboardModel(stage([ask("r0", "x", "y")], num_blocks=num_blocks).header)
    blocks = iter(model.fold.blocks)
    for chain in chains:
        parent = None
        for name in chain:
            state = next(blocks)
            state.hash, state.parent, parent = name, parent, name
    return model


def test_what_prompts_have_in_common_is_one_row_and_the_rest_branches_off(shared_prefix) -> None:
    assert rows(tree(), model_of(shared_prefix, 26)) == [
        "d r3 found 6 blocks, all it asked for, in step 7",
        "0-5 abcd 6 blocks ● hit",
        "├─6 8 14 18 a 4 blocks",
        "├─7 9 15 19 b 4 blocks",
        "├─10 12 16 c 3 blocks",
        "└─11 13 17 d 3 blocks",
    ]


def test_a_lookup_that_missed_is_shown_below_its_last_hit_with_the_reason(stage, ask) -> None:
    beginning = "one two three four five six seven eight " * 2
    asks = [
        ask("r0", beginning + "a b c d e f g h i", "no"),
        ask("r1", beginning + "p q r s t u v w x", "yes " * 9, arrives=3),
    ]
    shown = rows(tree(), model_of(stage(asks), 6))
    assert shown[0] == "b r1 in step 3 found 2 blocks, missed entry 2: never seen"
    assert shown[1:3] == ["0 1 b ● hit", "× entry 2: never seen"] or shown[1:4] == [
        "0 1 b ● hit",
        "  × entry 2: never seen",
        "├─2 b",
    ]


def test_the_chosen_sequences_lookup_is_told_and_without_one_the_last(shared_prefix) -> None:
    model = model_of(shared_prefix, 26)
    assert rows(tree(seq_id="r1.0"), model)[0].startswith("b r1 in step 1 found 6 blocks, missed entry 6")
    assert rows(tree(seq_id="nobody.0"), model)[0].startswith("d r3 found")
    assert rows(tree(), DashboardModel(model.header)) == [
        "no prompt has been looked up yet",
        "nothing is cached: no block is full yet",
    ]


def test_blocks_that_were_hit_and_reused_since_are_not_marked(shared_prefix) -> None:
    model = model_of(shared_prefix, 26)
    model.ages.blocks[3].born = model.lookups.recent[-1].step + 1
    assert rows(tree(), model)[1] == "0-5 abcd 6 blocks ● 3 hit"
    model.fold.blocks[0].hash = None
    assert not any("hit" in row for row in rows(tree(), model)[1:])


def test_a_chain_that_lost_its_beginning_is_said_to_be_out_of_reach(stage, ask) -> None:
    model = cache(stage, ask, "abc", "xy")
    model.fold.blocks[0].hash = model.fold.blocks[0].parent = None
    shown = rows(tree(), model)
    assert "░3 4 free" in shown
    assert "░1 2 free out of reach, its beginning is evicted" in shown


def test_the_same_content_in_two_blocks_is_one_place_of_the_chain(stage, ask) -> None:
    model = cache(stage, ask, "abc", "abd")
    assert rows(tree(), model)[1:] == ["░0 1 = ░3 4 free", "├─░2 free", "└─░5 free"]


def test_a_ring_of_parents_in_a_damaged_log_ends_nothing(stage, ask) -> None:
    model = cache(stage, ask, "abc")
    model.fold.blocks[0].parent = "c"
    assert rows(tree(block_id=1), model)[1] == "nothing is cached: no block is full yet"
    inspector = Inspector()
    inspector.context = tree(block_id=1).context
    assert any("block 0" in text_of(line) for line in inspector.lines(model, 60, 20))
    assert PrefixIndex().of(model).entry(1) is None


def test_the_page_with_the_chosen_block_is_drawn_and_the_cursor_reaches_every_chain(stage, ask) -> None:
    model = cache(stage, ask, *(chr(0x4E00 + 2 * number) + chr(0x4E01 + 2 * number) for number in range(100)))
    shown = rows(tree(), model, 60, 10)
    assert len(shown) == 10 and shown[1] == "░0 1 free" and shown[-1] == "+ 92 more chains"
    shown = rows(tree(block_id=151), model, 60, 10)
    assert shown[1] == "+ 75 chains above" and shown[2] == "░150 151 free" and shown[-1] == "+ 18 more chains"
    panel = tree(block_id=151)
    panel._model = model
    targets = panel.targets()
    assert len(targets) == 100
    # The chosen block stands for its row, so the cursor goes on from there.
    assert targets[74:77] == [block(148), block(151), block(152)]


def test_without_prefix_caching_the_panel_says_so(stage, ask) -> None:
    model = model_of(stage([ask("r0", "a " * 20, "b")], enable_prefix_caching=False), 2)
    assert rows(tree(), model) == ["Prefix caching is off: no prompt finds another's blocks."]


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (10, 2), (38, 9), (79, 8), (200, 60)])
@pytest.mark.parametrize("scenario", ["shared_prefix", "memory_pressure", "samples", "beams"])
def test_tree_and_inspector_stay_in_their_room(
    scenario: str, size: tuple[int, int], request: pytest.FixtureRequest
) -> None:
    stage = request.getfixturevalue(scenario)
    model, panels = DashboardModel(stage.header), [tree(3), Inspector()]
    panels[1].context = panels[0].context
    for number, event in enumerate(stage.run().events):
        model.apply(event)
        if number % 11:
            continue
        panels[0].context.selection.block_id = number % (len(model.fold.blocks) + 2)
        for panel in panels:
            lines = panel.lines(model, *size)
            assert 0 < len(lines) <= size[1]
            assert all(cell_len(text_of(line)) <= size[0] for line in lines)


@pytest.mark.parametrize("scenario", ["shared_prefix", "memory_pressure", "samples", "beams"])
def test_an_index_that_follows_changes_is_the_one_that_is_built_anew(scenario, request: pytest.FixtureRequest) -> None:
    stage = request.getfixturevalue(scenario)
    model, following = DashboardModel(stage.header), PrefixIndex()
    for number, event in enumerate(stage.run().events):
        model.apply(event)
        if number % 7 == 0:
            followed, anew = following.of(model), PrefixIndex().of(model)
            for part in ("carriers", "children", "holders", "roots"):
                assert getattr(followed, part) == getattr(anew, part), part
