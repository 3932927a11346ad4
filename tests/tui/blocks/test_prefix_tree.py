"""The prefix tree: chains, lookups, and the visible part of a large cache."""

from support.engine.random_runs import folded
from support.tui.shown import missing_from, rows

from minivllm.tui.context import Context
from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.selection import Selection, block
from minivllm.tui.state.chains import PrefixIndex
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.inspector import Inspector
from minivllm.tui.widgets.blocks.prefix_tree import PrefixTree


def tree(block_id: int | None = None, seq_id: str | None = None) -> PrefixTree:
    panel = PrefixTree()
    panel.context = Context(None, selection=Selection(block_id=block_id, seq_id=seq_id))
    return panel


def cache(stage, ask, *chains: str, num_blocks: int = 400) -> DashboardModel:
    """A model with these hand-made chains of unowned blocks: `ab` is block a and then b."""
    model = DashboardModel(stage([ask("r0", "x", "y")], num_blocks=num_blocks).header)
    blocks = iter(model.fold.blocks)
    for chain in chains:
        parent = None
        for name in chain:
            state = next(blocks)
            state.hash, state.parent, parent = name, parent, name
    return model


def test_a_common_prefix_is_one_row_and_the_rest_branches_off(shared_prefix) -> None:
    model = folded(shared_prefix.run(26))
    head, *shown = rows(tree(), model, height=8)
    assert missing_from(head, "d", "r3", 6, 7) == []
    expected = [
        "0-5 abcd 6 blocks ● hit  You are a careful assistant",
        "├─6 8 14 18 a 4 blocks   tired .≠ Why is the sky blue ?",
        "├─7 9 15 19 b 4 blocks   tired .≠ What is a fever for ?",
        "├─10 12 16 c 3 blocks   tired .≠ How do bees find home ?",
        "└─11 13 17 d 3 blocks   tired .≠ Who was Ada Lovelace ?",
    ]
    assert [row[: len(wanted)] for row, wanted in zip(shown, expected, strict=True)] == expected
    # Blocks that were reused since are not marked.
    model.ages.blocks[3].born = model.lookups.recent[-1].step + 1
    assert rows(tree(), model, height=8)[1].startswith("0-5 abcd 6 blocks ● 3 hit  ")


def test_spare_rows_show_the_words_of_each_block_and_the_names_of_its_owners(stage, ask) -> None:
    beginning = "one two three four five six seven eight "
    prompts = {name: f"{beginning}a {name} hat and coat of wool x" for name in ("ada", "ben")}
    model = folded(stage([ask(name, prompt, "no") for name, prompt in prompts.items()]).run(1))
    shown = [row.rstrip() for row in rows(tree(), model, 40, 20)[1:] if "×" not in row]
    assert shown == [
        "0 ab ● hit  ada ben",
        "│ 0 one two three four five six seven",
        "│ eight",
        "├─1 a  ada",
        "│   1 a≠ ada hat and coat of wool x",
        "└─2 b  ben",
        "    2 a≠ ben hat and coat of wool x",
    ]


def test_a_lookup_that_missed_is_shown_below_its_last_hit_with_the_reason(stage, ask) -> None:
    beginning = "one two three four five six seven eight " * 2
    asks = [
        ask("r0", beginning + "a b c d e f g h i", "no"),
        ask("r1", beginning + "p q r s t u v w x", "yes " * 9, arrives=3),
    ]
    head, first, missed, *_ = rows(tree(), folded(stage(asks).run(6)), height=4)
    assert missing_from(head, "b", "r1", "step 3", "2 blocks", "entry 2") == []
    assert first == f"0 1 b ● hit  {beginning.strip()}"
    assert missed.strip().startswith("× block 2 of the prompt")


def test_a_chain_without_its_beginning_and_a_cycle_of_a_damaged_log_are_drawn(stage, ask) -> None:
    model = cache(stage, ask, "abc")
    model.fold.blocks[0].hash = None
    assert "unreachable, its beginning is evicted" in rows(tree(), model)[1]
    model.fold.blocks[0].hash, model.fold.blocks[0].parent = "a", "c"
    model.fold.last_seq += 1
    assert rows(tree(block_id=1), model)[1] == "nothing is cached: no block is full yet"
    inspector = Inspector()
    inspector.context = tree(block_id=1).context
    assert any("block 0" in text_of(line) for line in inspector.lines(model, 60, 20))
    assert PrefixIndex().of(model).entry(1) is None


def test_the_page_has_the_chosen_block_and_the_cursor_reaches_every_chain(stage, ask) -> None:
    model = cache(stage, ask, *(chr(code) + chr(code + 1) for code in range(0x4E00, 0x4EC8, 2)))
    shown = rows(tree(), model, 60, 10)
    assert shown[1].startswith("░0 1 free ") and shown[-1] == "+ 92 more chains"
    panel = tree(block_id=151)
    shown = rows(panel, model, 60, 10)
    assert shown[1] == "+ 75 chains above" and shown[2].startswith("░150 151 free ")
    assert shown[-1] == "+ 18 more chains"
    panel._model = model
    # The selected block represents its row, so the cursor continues from there.
    assert panel.targets()[74:77] == [block(148), block(151), block(152)]
