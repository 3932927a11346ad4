"""Block cards: which blocks get one, what this step wrote, and what is left empty."""

from collections import Counter

from support.engine.random_runs import folded
from support.tui.shown import ends_of_steps, rows

from minivllm.events.fold import Fold
from minivllm.text import clean
from minivllm.tui.context import Context
from minivllm.tui.draw.lines import Line, text_of
from minivllm.tui.draw.selection import Selection, block
from minivllm.tui.state.block_words import contents
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.blockmap import BlockMap
from minivllm.tui.widgets.blocks.cards import BlockCards
from minivllm.tui.widgets.blocks.inspector import Inspector
from minivllm.tui.widgets.blocks.prefix_tree import PrefixTree


def cards(block_id: int | None = None) -> BlockCards:
    shown = BlockCards()
    shown.context = Context(None, selection=Selection(block_id=block_id))
    return shown


def blocks_of(lines: list[Line]) -> list[int]:
    """The blocks that have a card, in reading order."""
    return [link[0].key for line in lines for _, style, *link in line if link and style == "text*"]


def test_a_shared_block_is_one_card_with_a_stripe_for_each_owner(shared_prefix) -> None:
    model = folded(shared_prefix.run(26))
    lines = cards().lines(model, 40, 90)
    assert text_of(lines[0]).split() == ["▌▌▌▌0", "abcd"]
    stripes = [span[1] for span in lines[1] if span[0] == "▌"]
    assert stripes == [model.hue(letter) for letter in "abcd"]
    assert "You are a careful assistant" in text_of(lines[1])
    model.fold.token_pieces.clear()  # as in an old recording: ids stand for the words
    ids = " ".join(map(str, model.fold.requests["r0"].prompt_token_ids[:8]))
    assert rows(cards(), model, 40, 90)[1] == f"▌▌▌▌ {ids}"


def test_words_that_are_cut_end_with_an_ellipsis_also_where_they_fill_the_row(memory_pressure):
    model = folded(memory_pressure.run())
    for row in (row for width in range(32, 60) for row in rows(cards(), model, width, 11)[:-1]):
        held = contents(model, int(row.removeprefix("░").split()[0]), ())
        text = clean("".join(model.fold.token_pieces[it] for it in held.token_ids))
        assert row.endswith("…") or row.replace(" ", "").endswith(text.replace(" ", "")), row


def test_the_words_that_a_step_wrote_are_in_reverse_before_the_empty_slots(shared_prefix) -> None:
    size, num_seen = 8, 0
    for model in ends_of_steps(shared_prefix.run()):
        lit: dict[int, str] = {}
        empty: Counter[int] = Counter()
        spans = (span for line in cards().lines(model, 130, 90) for span in line)
        for text, style, target in (span for span in spans if len(span) == 3):
            if target.kind == "block":
                empty[target.key] += text.count("╴")
                if "=!" in style:
                    lit[target.key] = text.strip()
        for item in model.fold.scheduled:
            state = model.fold.sequences.get(item.seq_id)
            if state is None or item.num_tokens > 1:
                continue
            token_id = state.output_token_ids[item.num_computed_tokens - state.num_prompt_tokens]
            entry, place = divmod(item.num_computed_tokens, size)
            block_id = state.block_table[entry]
            assert lit[block_id] == model.fold.token_pieces[token_id].strip()
            assert empty[block_id] == size - place - 1
            num_seen += 1
    assert num_seen > 50


def test_if_not_all_fit_written_blocks_and_the_selected_one_have_cards(shared_prefix) -> None:
    model = folded(shared_prefix.run(26))
    tables = [state.block_table for state in model.fold.sequences.values()]
    written = {table[-1] for table in tables if table}
    everything = blocks_of(cards().lines(model, 130, 200))
    for chosen in everything:
        lines = cards(chosen).lines(model, 70, 10)
        shown = blocks_of(lines)
        assert len(shown) == 6 and shown == sorted(shown)
        assert {*written, chosen} <= set(shown)
        assert text_of(lines[-1]) == f"+ {len(everything) - 6} more blocks with text"
    panel_of_all = cards()
    panel_of_all._model = model
    assert panel_of_all.targets() == list(map(block, everything))


def test_reserved_blocks_without_text_are_counted_and_leave_the_room_to_words(stage, ask) -> None:
    asks = [ask(name, "a b c d e f g h i j", "k l m n o p q r s t u") for name in "ab"]
    run = stage(asks, kv_cache_allocator="contiguous", max_model_len=128).run(3)
    model = folded(run)
    assert blocks_of(cards().lines(model, 70, 10)) == [0, 1, 16, 17]
    assert rows(cards(), model, 70, 10)[-1] == "+ 28 reserved blocks without text"
    assert blocks_of(cards(5).lines(model, 70, 10)) == [0, 1, 5, 16, 17]


def test_a_card_of_one_row_is_filled_with_the_words_up_to_the_newest(stage, ask) -> None:
    model = folded(stage([ask("a", "go", "one two three four five six seven eight")]).run(8))
    for width in range(24, 60):
        (row,) = rows(cards(), model, width, 1)
        said = row.partition("a ")[2]
        assert said.startswith("…") == ("go" not in said) and "seven" in said
        assert len(row) > width - 7 or "go" in said


def test_a_block_cached_before_the_recording_says_that_its_words_are_unknown(shared_prefix) -> None:
    engine = shared_prefix.run().engine
    model = DashboardModel(shared_prefix.header, Fold(shared_prefix.header, engine.inspect()))
    cached = [index for index in model.fold.free_queue if model.fold.blocks[index].hash is not None]
    assert rows(cards(), model)[0].startswith(f"+ {len(cached)} cached blocks, older than")
    for panel_with_words in (Inspector(), BlockMap(), PrefixTree()):
        panel_with_words.context = Context(None, selection=Selection(block_id=cached[0]))
        assert "words unknown" in " ".join(rows(panel_with_words, model, 68, 20))
