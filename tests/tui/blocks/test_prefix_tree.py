"""The prefix tree: chains, lookups, and the visible part of a large cache."""

from support.engine.random_runs import folded
from support.tui.shown import missing_from, rows

from minivllm.events import types as ev
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
    head, *shown = rows(tree(), folded(shared_prefix.run(26)), height=8)
    assert missing_from(head, "d", "r3", 6, 7) == []
    expected = [
        "0-5 abcd 6 blocks ● hit  You are a careful assistant",
        "├─6 8 14 18 a 4 blocks   tired .≠ Why is the sky blue ?",
        "├─7 9 15 19 b 4 blocks   tired .≠ What is a fever for ?",
        "├─10 12 16 c 3 blocks   tired .≠ How do bees find home ?",
        "└─11 13 17 d 3 blocks   tired .≠ Who was Ada Lovelace ?",
    ]
    assert [row[: len(one)] for row, one in zip(shown, expected, strict=True)] == expected


def test_the_place_where_prompts_part_is_marked_and_old_recordings_show_it_in_ids(
    stage, ask
) -> None:
    beginning = "one two three four five six seven eight "
    ends = (
        "nine ten red hat and coat of wool x",
        "nine ten red scarf and coat of wool x",
        "blue sky and sea and sand and palms x",
    )
    run = stage([ask(f"r{n}", beginning + end, "no") for n, end in enumerate(ends)]).run(1)
    words = [row.partition("  ")[2] for row in rows(tree(), folded(run), height=8)[3:]]
    assert words == [
        " nine ten red≠ hat and coat of wool",
        " nine ten red≠ scarf and coat of wool",
        "≠ blue sky and sea and sand and palms",
    ]
    ids = {text.strip(): f" {at}" for at, text in folded(run).fold.token_pieces.items()}
    model = DashboardModel(run.header)
    for event in run.events:
        if type(event) is not ev.TokensNamed:
            model.apply(event)
    shown = [row.partition("  ")[2] for row in rows(tree(), model, height=8)[3:]]
    assert shown == [
        "≠".join("".join(ids[word] for word in part.split()) for part in row.split("≠"))
        for row in words
    ]


def test_spare_rows_show_the_words_of_each_block_and_the_names_of_its_owners(stage, ask) -> None:
    beginning = "one two three four five six seven eight "
    asks = [
        ask(name, f"{beginning}a {what} hat and coat of wool x", "no")
        for name, what in (("ada", "red"), ("ben", "green"))
    ]
    model = folded(stage(asks).run(1))
    low, high = rows(tree(), model, 40, 7), rows(tree(), model, 40, 20)
    assert len(low) == 5 and not [row for row in low if "ada" in row]
    shown = [row.rstrip() for row in high[1:] if "×" not in row]
    assert shown == [
        "0 ab ● hit  ada ben",
        "│ 0 one two three four five six seven",
        "│ eight",
        "├─1 a  ada",
        "│   1 a≠ red hat and coat of wool x",
        "└─2 b  ben",
        "    2 a≠ green hat and coat of wool x",
    ]
    # As many rows as there are, the last one with an ellipsis.
    cut = rows(tree(), model, 24, 9)
    assert len(cut) <= 9 and [row for row in cut if row.endswith("…")]


def test_a_lookup_that_missed_is_shown_below_its_last_hit_with_the_reason(stage, ask) -> None:
    beginning = "one two three four five six seven eight " * 2
    asks = [
        ask("r0", beginning + "a b c d e f g h i", "no"),
        ask("r1", beginning + "p q r s t u v w x", "yes " * 9, arrives=3),
    ]
    shown = rows(tree(), folded(stage(asks).run(6)), height=4)
    assert missing_from(shown[0], "b", "r1", "step 3", "2 blocks", "entry 2") == []
    assert shown[1] == f"0 1 b ● hit  {beginning.strip()}" and shown[2].strip().startswith(
        "× entry 2"
    )


def test_the_lookup_of_the_selected_sequence_is_shown_or_else_the_last_one(shared_prefix) -> None:
    model = folded(shared_prefix.run(26))
    head = rows(tree(seq_id="r1.0"), model)[0]
    assert missing_from(head, "b", "r1", "step 1", "6 blocks", "entry 6") == []
    assert missing_from(rows(tree(seq_id="nobody.0"), model)[0], "d", "r3") == []


def test_a_cycle_of_parents_in_a_damaged_log_is_harmless(stage, ask) -> None:
    model = cache(stage, ask, "abc")
    model.fold.blocks[0].parent = "c"
    assert rows(tree(block_id=1), model)[1] == "nothing is cached: no block is full yet"
    inspector = Inspector()
    inspector.context = tree(block_id=1).context
    assert any("block 0" in text_of(line) for line in inspector.lines(model, 60, 20))
    assert PrefixIndex().of(model).entry(1) is None


def test_the_page_with_the_chosen_block_is_drawn_and_the_cursor_reaches_every_chain(
    stage, ask
) -> None:
    model = cache(stage, ask, *(chr(code) + chr(code + 1) for code in range(0x4E00, 0x4EC8, 2)))
    shown = rows(tree(), model, 60, 10)
    assert (
        len(shown) == 10 and shown[1].startswith("░0 1 free ") and shown[-1] == "+ 92 more chains"
    )
    shown = rows(tree(block_id=151), model, 60, 10)
    assert shown[1] == "+ 75 chains above" and shown[2].startswith("░150 151 free ")
    assert shown[-1] == "+ 18 more chains"
    panel = tree(block_id=151)
    panel._model = model
    targets = panel.targets()
    assert len(targets) == 100
    # The selected block represents its row, so the cursor continues from there.
    assert targets[74:77] == [block(148), block(151), block(152)]


def test_without_prefix_caching_the_panel_says_so(stage, ask) -> None:
    model = folded(stage([ask("r0", "a " * 20, "b")], enable_prefix_caching=False).run(2))
    (shown,) = rows(tree(), model)
    assert missing_from(shown.lower(), "prefix caching is off") == []
