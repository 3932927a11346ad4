"""Attention mass as bars to scale, and the kernel x-ray as an animation with a tile counter."""

import re
from math import exp
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engine.random_runs import folded
from support.tui.shown import missing_from, moments, rows

from minivllm.events import types as ev
from minivllm.events.types.kernels import TracedProgram as Program
from minivllm.events.types.kernels import TracedRead as Read
from minivllm.events.types.kernels import TracedTile as Tile
from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.selection import Selection, block
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.mass import Mass, bars_of
from minivllm.tui.widgets.blocks.xray import DONE, PLAYING, TO_COME, XRay, moment, num_ticks


def trace_of(programs: list[Program], *, seq: int = 7) -> ev.KernelTraced:
    return ev.KernelTraced(seq, 5, 0.1, "r0.0", 3, 40, programs)


def with_selection(panel, seq_id: str | None = None):
    panel.context = SimpleNamespace(selection=Selection(seq_id=seq_id), ascii=False)
    return panel


def a_trace(table: list[int], splits: int = 2, kv_heads: int = 3) -> ev.KernelTraced:
    """One decode: two blocks per tile, a program per KV head and split, and one that combines."""
    programs = []
    for split in range(splits):
        part = table[split * len(table) // splits : (split + 1) * len(table) // splits]
        for head in range(kv_heads):
            tiles = []
            for at in range(0, len(part), 2):
                reads = [Read(block_id, 0, 8) for block_id in part[at : at + 2]]
                tiles.append(Tile(reads, [at + 0.5, -1.25], [1.0 + at, exp(at)]))
            programs.append(Program("decode", (0, head, split), head, tiles))
    return trace_of([*programs, Program("combine", (0, 0, 0), None, [])])


# ---- attention mass ----


def test_there_is_a_bar_to_scale_for_each_block_of_the_table(shared_prefix) -> None:
    model = folded(shared_prefix.run(22))
    for seq_id, mass in (("r0.0", [0.6, 0.0, 0.1, 0.3]), ("r1.0", [0.25] * 4)):
        model.apply(ev.AttentionMass(model.fold.last_seq + 1, 22, 1.0, seq_id, mass))
    head = rows(Mass(), model, 80, 8)[0]
    assert missing_from(head, "r0", "entry 0", "block 0", "60.0%", "30.0%") == []
    shown = rows(Mass(), model, 47, 7)
    columns = ["".join(row.ljust(27)[x] for row in shown[1:6]) for x in (7, 17, 22)]
    assert columns == ["█████", "    ▇", "  ▄██"]
    assert [row[:6].strip() for row in shown[1:6]] == ["60%┤", "┤", "┤", "┤", "0%┤"]
    table = model.fold.sequences["r0.0"].block_table[:4]
    assert shown[6].split() == ["block", *map(str, table)]
    head = rows(with_selection(Mass(), "r1.0"), model)[0]
    assert missing_from(head, "r1", "entry 0", "25.0%") == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=300), st.integers(1, 200))
def test_no_mass_is_lost_when_a_bar_covers_several_blocks(mass: list[float], width: int) -> None:
    table = list(range(100, 100 + len(mass)))
    sequences = {"s": SimpleNamespace(block_table=table)}
    fold = SimpleNamespace(sequences=sequences)
    model = SimpleNamespace(mass={"s": mass}, fold=fold, attention=None)
    bars = bars_of(model, "s", width)
    assert len(bars) <= width
    assert [block_id for bar in bars for block_id in bar.blocks] == table
    assert sum(bar.mass for bar in bars) == pytest.approx(sum(mass))
    assert all(table[bar.entry] == bar.blocks[0] for bar in bars)


def test_the_mass_of_a_sequence_that_lost_its_blocks_is_not_drawn(memory_pressure) -> None:
    preempted = 0
    for model, event in moments(memory_pressure.run()):
        if isinstance(event, ev.StepEnd):
            for seq_id in model.fold.running:
                mass = [0.01] * len(model.fold.sequences[seq_id].block_table)
                model.apply(ev.AttentionMass(event.seq, event.step, event.t, seq_id, mass))
        if isinstance(event, ev.RequestPreempted):
            assert event.seq_id not in model.mass, "its next table has other blocks"
            shown = rows(with_selection(Mass(), event.seq_id), model)
            assert f" {event.seq_id.removesuffix('.0')} most" not in shown[0]
            preempted += 1
    assert preempted


# ---- attention on words ----


def attends(model: DashboardModel, seq_id: str, weights: list[float], *view: int | None) -> None:
    """Apply the events of a step in which the newest token of `seq_id` looked at its tokens."""
    size = model.header.block_size
    mass = [sum(weights[at : at + size]) for at in range(0, len(weights), size)]
    last = model.fold.last_seq
    model.apply(ev.AttentionMass(last + 1, model.fold.step, 1.0, seq_id, mass))
    model.apply(ev.TokenAttention(last + 2, model.fold.step, 1.0, seq_id, weights, *view))


def spread(count: int, **shares: float) -> list[float]:
    """`count` weights with the given shares (at1=0.3), and the rest evenly on the others."""
    given = {int(name.removeprefix("at")): share for name, share in shares.items()}
    rest = (1.0 - sum(given.values())) / (count - len(given))
    return [given.get(at, rest) for at in range(count)]


def test_each_word_has_the_style_of_its_share_and_selects_its_block(shared_prefix) -> None:
    model, panel = folded(shared_prefix.run(22)), with_selection(Mass(), "r0.0")
    sequence = model.fold.sequences["r0.0"]
    count = sequence.num_computed_tokens
    attends(model, "r0.0", spread(count, at1=0.3, at5=0.1), None, None, 30, 9)
    lines = panel.lines(model, 100, 60)
    tokens = [*model.fold.requests["r0"].prompt_token_ids, *sequence.output_token_ids][:count]
    begin = next(at for at, line in enumerate(lines) if text_of(line).startswith("share ")) + 1
    spans = [span for line in lines[begin:] for span in line]
    for at, (token_id, (text, *look)) in enumerate(zip(tokens, spans, strict=True)):
        assert text.strip() == model.fold.token_pieces[token_id].strip()
        least = "text" if model.attention.weights[at] >= 0.01 else "faint"
        name = {1: "warn*!", 5: "warn*"}.get(at, least)
        assert look == [name, block(sequence.block_table[at // model.header.block_size])]


def test_with_little_room_the_rest_of_the_words_has_one_share(shared_prefix) -> None:
    model, panel = folded(shared_prefix.run(22)), with_selection(Mass(), "r0.0")
    count = model.fold.sequences["r0.0"].num_computed_tokens
    attends(model, "r0.0", spread(count, at0=0.5), 3, 1, 30, 9)
    for width, height in ((46, 14), (40, 8)):
        shown = rows(panel, model, width, height)
        assert len(shown) == height and "layer 3, head 1" in shown[1]
        hidden = next(row for row in shown if row.startswith("…"))
        share, number = re.match(r"… ([\d.]+)% on the (\d+) tokens before", hidden).groups()
        expected = 100 * sum(model.attention.weights[: int(number)])
        assert float(share) == pytest.approx(expected, abs=0.06)
    # The bars are of the same layer and head as the words.
    size = model.header.block_size
    model.mass["r0.0"] = [1.0 / len(model.mass["r0.0"])] * len(model.mass["r0.0"])
    masses = [bar.mass for bar in bars_of(model, "r0.0", 200)]
    assert masses[0] == pytest.approx(sum(model.attention.weights[:size])) and masses[0] > 0.5
    # Words that were recorded for another sequence are not drawn for this one.
    attends(model, "r1.0", spread(model.fold.sequences["r1.0"].num_computed_tokens))
    model.apply(ev.AttentionMass(model.fold.last_seq + 1, 22, 1.0, "r0.0", [1.0]))
    assert "recorded for r1 only" in rows(panel, model, 80, 14)[-1]


# ---- the kernel x-ray ----


def sign_of(number: int, now: int) -> str:
    return DONE if number < now else PLAYING if number == now else TO_COME


def test_each_moment_shows_what_is_read_and_the_softmax_after_it(shared_prefix) -> None:
    model, panel = folded(shared_prefix.run(22)), XRay()
    table = model.fold.sequences["r0.0"].block_table[:8]
    model.remembered.trace = trace = a_trace(table)
    for counter in range(num_ticks(trace)):
        panel.counter = counter
        at, shown = moment(trace, counter), rows(panel, model, 100, 20)
        program = trace.programs[at.program]
        assert missing_from(shown[0], "r0", "layer 3", "40 tokens", "step 5") == []
        # Three rows of two splits for the three heads, in grid order, then the combine program.
        signs = [sign_of(number, at.program) for number in (0, 3, 1, 4, 2, 5, 6)]
        assert list("".join(row.split()[0] for row in shown[1:5])) == signs
        if not program.tiles:
            assert "reads no key" in shown[6]
            continue
        assert missing_from(shown[5], f"reads KV head {program.kv_head}") == []
        num_tiles = len(program.tiles)
        assert shown[6 : 6 + num_tiles] == [
            f"{sign_of(number, at.tile)} tile {number + 1} of {num_tiles}: blocks "
            + " ".join(str(read.block_id) for read in tile.reads)
            for number, tile in enumerate(program.tiles)
        ]
        assert f"after tile {at.tile + 1}: largest score" in shown[6 + num_tiles]
        tiles = program.tiles[max(at.tile - 1, 0) : at.tile + 1]
        for head, row in enumerate(shown[7 + num_tiles :]):
            numbers = [tile.running_max[head] for tile in tiles]
            numbers += [tile.running_sum[head] for tile in tiles]
            assert re.findall(r"-?\d+\.\d\d", row) == [f"{number:.2f}" for number in numbers]
            assert f"query head {2 * program.kv_head + head}: largest" in row
    # A block that was read in part is listed with its slots.
    tile = Tile([Read(1, 0, 8), Read(3, 2, 4), Read(4, 0, 1)], [1.0], [2.0])
    model.remembered.trace = trace_of([Program("decode", (0, 0, 0), 1, [tile])])
    assert "▶ tile 1 of 1: blocks 1 3 (slots 2-5) 4 (slot 0)" in rows(XRay(), model, 100, 20)


def test_a_key_stops_the_animation_and_a_new_trace_starts_it_again(shared_prefix) -> None:
    model, panel = folded(shared_prefix.run(22)), XRay()
    model.remembered.trace = a_trace([0, 1, 2, 3])
    panel.show(model)
    for by, counter in ((3, 3), (-12, 0), (500, 6)):
        panel.move_cursor(by)
        assert (panel.counter, panel.plays) == (counter, False)
    # A copy of the trace, after a step back and forth in time, continues where it was.
    for seq, is_new in ((7, False), (9, True)):
        model.remembered.trace = trace_of(model.trace.programs, seq=seq)
        panel.show(model)
        assert (panel.counter, panel.plays) == ((0, True) if is_new else (6, False))
