"""Each panel says what the fold says, in lines that fit their room."""

import re
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from support.engine.random_traces import standing_at

from minivllm.events import types as ev
from minivllm.events.state import ScheduledState
from minivllm.tui.draw.lines import targets_of, text_of
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.blockmap import BlockMap
from minivllm.tui.widgets.blocks.freequeue import FreeQueue
from minivllm.tui.widgets.events.eventlog import EventLog
from minivllm.tui.widgets.frame.header import Header
from minivllm.tui.widgets.frame.panel import Panel
from minivllm.tui.widgets.requests.batch_order import BatchOrder
from minivllm.tui.widgets.requests.finished import Finished
from minivllm.tui.widgets.requests.slots import Slots
from minivllm.tui.widgets.requests.waiting import Waiting
from minivllm.tui.widgets.steps.budget import Budget, bar_cells


def model_of(stage, steps: int = 10_000) -> DashboardModel:
    model = DashboardModel(stage.header)
    for event in stage.run(steps).events:
        model.apply(event)
    return model


def rows(panel: Panel, model: DashboardModel, width: int = 110, height: int = 8) -> list[str]:
    if isinstance(panel, Header):
        panel.context = standing_at(model)
    return [text_of(line).rstrip() for line in panel.lines(model, width, height)]


def all_panels() -> list[Panel]:
    return [Header(), Slots(), Budget(), Waiting(), BlockMap(), FreeQueue(), Finished(), EventLog()]


@pytest.mark.parametrize("scenario", ["shared_prefix", "memory_pressure", "samples", "beams"])
@pytest.mark.parametrize("size", [(1, 1), (10, 2), (37, 5), (79, 8), (118, 20), (200, 60)])
def test_no_panel_leaves_its_room_at_any_time(
    scenario: str, size: tuple[int, int], request: pytest.FixtureRequest
) -> None:
    stage = request.getfixturevalue(scenario)
    model, panels = DashboardModel(stage.header), all_panels()
    panels[0].context = standing_at(model)
    for event in stage.run().events:
        model.apply(event)
        if not isinstance(event, ev.StepEnd):
            continue
        for panel in panels:
            lines = panel.lines(model, *size)
            assert len(lines) <= size[1], panel
            if size[0] >= 37:
                assert all(cell_len(text_of(line)) <= size[0] for line in lines), panel


@pytest.mark.parametrize("scenario", ["shared_prefix", "memory_pressure", "samples", "beams"])
def test_what_can_be_chosen_on_the_overview_is_there(scenario: str, request: pytest.FixtureRequest) -> None:
    stage = request.getfixturevalue(scenario)
    model = model_of(stage, 60)
    fold = model.fold
    there = {
        Slots: ("sequence", set(fold.running)),
        Budget: ("sequence", {item.seq_id for item in fold.scheduled}),
        Waiting: ("sequence", set(fold.waiting)),
        FreeQueue: ("block", {str(block_id) for block_id in fold.free_queue}),
        Finished: ("sequence", {done.seq_id for done in fold.history}),
        EventLog: ("event", {str(event.seq) for event in stage.events}),
    }
    for kind_of_panel, (kind, keys) in there.items():
        panel = kind_of_panel()
        panel._lines = panel.lines(model, 118, 30)
        targets = [target for target in panel.targets() if target.kind != "step"]
        assert {target.kind for target in targets} <= {kind}, kind_of_panel
        assert {target.key for target in targets} <= keys
        if kind_of_panel is not EventLog:
            assert {target.key for target in targets} == keys, kind_of_panel
    steps = [target.key for target in targets_of(Budget().lines(model, 118, 8)) if target.kind == "step"]
    assert steps == [str(record.step) for record in model.steps.records]


def test_slots_follow_a_limit_that_changes_while_the_engine_runs(shared_prefix) -> None:
    model = model_of(shared_prefix, 22)
    model.fold.max_num_seqs = 6
    assert [row.split()[:2] for row in rows(Slots(), model, 78, 6)[4:]] == [["4", "·"], ["5", "·"]]
    assert Slots().title(model, 78) == "Batch slots  4 of 6"
    # Lowered, the ones above it still run and still have their rows.
    model.fold.max_num_seqs = 2
    assert len(rows(Slots(), model, 78, 6)) == 4
    assert "all 2 slots taken" in rows(Waiting(), model)[0]


# ---- slots ----


def test_a_slot_shows_who_runs_in_which_blocks_and_what_it_says(shared_prefix) -> None:
    model = model_of(shared_prefix, 22)
    shown = rows(Slots(), model)
    for slot, name in enumerate(("r0", "r1", "r2", "r3")):
        sequence = model.fold.sequences[f"{name}.0"]
        head, text = shown[2 * slot], shown[2 * slot + 1]
        assert head.split()[:4] == [str(slot), "abcd"[slot], name, "DECODE"]
        assert f"+{len(sequence.output_token_ids)} " in head
        assert text.strip() == sequence.text
    assert "blocks 0-6 8 14 18 " in shown[0]
    assert shown[0].endswith("Why is the sky blue ?")


def test_samples_have_rows_and_names_of_their_own_and_the_blocks_of_the_prompt_in_common(samples) -> None:
    shown = rows(Slots(), model_of(samples, 8), 110, 4)
    assert [row.split()[2] for row in shown] == ["r0", "r0.1", "r0.2", "r1"]
    assert all(" 0-6 " in row or " 0-7 " in row for row in shown[:3])
    # Only the last one, which had nothing to copy, has the block next to them.
    assert [" 0-7 " in row for row in shown[:3]] == [False, False, True]


def test_who_needs_several_slots_is_not_told_that_all_are_taken(stage, ask) -> None:
    asks = [ask("r0", "a question", "an answer " * 9), ask("r1", "another", "an answer " * 9, max_tokens=20, samples=4)]
    assert rows(Waiting(), model_of(stage(asks), 2), 60, 4)[0].endswith("needs 4 slots, 3 free")


def test_with_a_line_a_slot_the_text_stands_beside(shared_prefix) -> None:
    shown = rows(Slots(), model_of(shared_prefix, 22), 78, 4)
    assert len(shown) == 4
    assert all("DECODE" in row for row in shown)
    assert shown[2].endswith("smell of their own hive")


def test_a_prefill_shows_how_far_it_is_and_the_prompt(stage, ask) -> None:
    run = stage([ask("r0", "word " * 100 + "end?", "yes")], max_num_batched_tokens=32)
    shown = rows(Slots(), model_of(run, 2), 110, 4)
    assert "PREFILL 64/101 " in shown[0]
    assert shown[0].endswith("end?")


def test_a_prefill_that_has_given_its_first_token_is_complete(stage, ask) -> None:
    run = stage([ask("r0", "word " * 100 + "end?", "yes it is")], max_num_batched_tokens=32)
    model = model_of(run, 4)
    assert model.fold.sequences["r0.0"].output_token_ids
    assert "PREFILL 101/101 " in rows(Slots(), model, 110, 4)[0]
    assert rows(BatchOrder(), model)[0].endswith(" 101/101 computed")
    # A chunk that ends one token before the end of the prompt is not.
    run = stage([ask("r1", "word " * 95 + "end?", "yes it is")], max_num_batched_tokens=95)
    assert "PREFILL 95/96 " in rows(Slots(), model_of(run, 1), 110, 4)[0]


def test_a_sequence_that_was_preempted_is_marked_when_it_runs_again(memory_pressure) -> None:
    model = DashboardModel(memory_pressure.header)
    marked = set()
    for event in memory_pressure.run().events:
        model.apply(event)
        if isinstance(event, ev.StepEnd):
            for row in rows(Slots(), model, 78, 4):
                for times in re.findall(r"↺(\d)", row):
                    name = row.split()[2]
                    assert model.fold.sequences[f"{name}.0"].num_preemptions == int(times)
                    marked.add(name)
    assert marked


def test_more_slots_than_rows_are_named_on_the_last_row(stage, ask) -> None:
    run = stage([ask(f"r{i}", "a question", "a long answer " * 20) for i in range(12)], max_num_seqs=12)
    shown = rows(Slots(), model_of(run, 3), 110, 5)
    assert len(shown) == 5
    assert shown[-1].split() == [
        "+",
        "8",
        "more",
        "slots:",
        "e",
        "r4",
        "f",
        "r5",
        "g",
        "r6",
        "h",
        "r7",
        "i",
        "r8",
        "j",
        "r9",
        "k",
        "r10",
        "l",
        "r11",
    ]


# ---- waiting ----


def test_the_first_waits_for_a_slot_and_the_others_for_the_first(shared_prefix) -> None:
    shown = rows(Waiting(), model_of(shared_prefix, 22))
    assert [" ".join(row.split()) for row in shown] == [
        "r4 56 tok all 4 slots taken",
        "r5 56 tok behind r4",
        "r6 56 tok behind r5",
        "r7 56 tok behind r6",
    ]


def test_who_waits_for_blocks_is_told_how_many_and_how_often_it_was_preempted(memory_pressure) -> None:
    model = model_of(memory_pressure, 30)
    first = rows(Waiting(), model)[0]
    _, need, free = model.fold.sequences[model.fold.waiting[0]].deferred
    assert first.split(" tok ")[1].strip() == f"↺1 preempted, needs {need} blocks, {free} free"
    # Where it is narrow the reason stays whole and the details give way.
    assert rows(Waiting(), model, 38)[0].endswith(f"needs {need} blocks, {free} free")


def test_a_long_queue_says_how_many_more_wait(stage, ask) -> None:
    run = stage([ask(f"r{i}", "a question", "an answer " * 9) for i in range(30)])
    assert rows(Waiting(), model_of(run, 2), 60, 4)[-1] == "+ 23 more behind"
    assert rows(Waiting(), model_of(run), 60, 4) == ["nobody waits"]


# ---- token budget ----


@given(st.lists(st.integers(1, 40), max_size=12), st.integers(1, 30), st.integers(0, 300))
def test_the_bar_is_to_scale_and_names_the_right_ones(sizes: list[int], tokens_per_cell: int, spare: int) -> None:
    numbers = count()
    items = [ScheduledState(f"s{next(numbers)}", size, "prefill", 0) for size in sizes]
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


def test_a_token_has_a_cell_of_its_own_where_the_budget_fits(stage, ask) -> None:
    asks = [ask("r0", "short question", "a long answer " * 9), ask("r1", "word " * 60, "an answer", arrives=3)]
    shown = rows(Budget(), model_of(stage(asks, max_num_batched_tokens=40), 4), 44, 5)
    assert shown[0] == "a" + "b" * 39
    assert shown[1] == "decode 1  prefill 39  unused 0"
    assert shown[2] == "all used"
    assert shown[3].startswith("last steps ")


def test_unused_budget_has_the_reason_of_the_first_in_the_queue(shared_prefix, memory_pressure) -> None:
    assert "unused, r4: all 4 slots taken" in rows(Budget(), model_of(shared_prefix, 22))
    model = model_of(memory_pressure, 30)
    _, need, free = model.fold.sequences[model.fold.waiting[0]].deferred
    assert f"unused, r2: needs {need} blocks, {free} free" in rows(Budget(), model)
    assert "unused: nobody waits" in rows(Budget(), model_of(memory_pressure))
    first = DashboardModel(shared_prefix.header)
    first.apply(ev.RequestArrived(1, 0, 0.0, "new", "new.0", 0, [1, 2, 3], 9))
    assert "no step yet: new waits for the first" in rows(Budget(), first)


def test_nothing_is_said_of_unused_tokens_while_the_plan_is_being_made(shared_prefix) -> None:
    model, said = DashboardModel(shared_prefix.header), []
    for event in shared_prefix.run(22).events:
        model.apply(event)
        planned = {item.seq_id for item in model.fold.scheduled}
        if model.steps.current is not None and not planned >= set(model.fold.running):
            said.append(rows(Budget(), model)[2])
            assert any("no tokens yet" in row for row in rows(BatchOrder(), model, height=20))
    assert len(set(said)) > 10 and all(re.fullmatch(r"step \d+ is under way", one) for one in said)


# ---- the free queue, finished, header, events ----


@pytest.mark.parametrize("steps", [0, 20, 45, 80, 10_000])
def test_the_free_queue_is_in_the_order_of_reuse(steps: int, memory_pressure) -> None:
    model = model_of(memory_pressure, steps) if steps else DashboardModel(memory_pressure.header)
    shown = " ".join(rows(FreeQueue(), model, 110, 4)).split()
    if not model.fold.free_queue:
        assert shown == ["no", "block", "is", "free"]
        return
    assert shown.pop(0) == "next"
    blocks = model.fold.blocks
    assert [int(re.sub(r"\D", "", item)) for item in shown] == list(model.fold.free_queue)
    assert [item.startswith("░") for item in shown] == [blocks[i].hash is not None for i in model.fold.free_queue]


def test_a_long_free_queue_says_how_many_more_there_are(stage, ask) -> None:
    model = model_of(stage([ask("r0", "a", "b")], num_blocks=500), 1)
    shown = " ".join(rows(FreeQueue(), model, 50, 3)).split()
    assert shown[-3] == "+" and shown[-1] == "more"
    assert len(shown) - 4 + int(shown[-2]) == len(model.fold.free_queue)


def test_the_finished_are_shown_newest_first_with_reason_and_text(shared_prefix) -> None:
    model = model_of(shared_prefix)
    shown = rows(Finished(), model, 90, 3)
    newest = list(model.fold.history)[::-1][:3]
    for row, done in zip(shown, newest, strict=True):
        assert row.split()[1:3] == [done.request_id, "done"]
        assert f"{done.num_tokens} tok" in row
        assert done.text[:30] in row
    assert Finished().title(model, 90) == "Finished  8 requests"


def test_the_header_counts_what_the_fold_counts(memory_pressure) -> None:
    model = model_of(memory_pressure, 60)
    (row,) = rows(Header(), model, 180, 1)
    use, counters = model.pool_use(), model.fold.counters
    assert f"blocks {use.used} used {use.cached} cached {use.empty} empty" in row
    assert f"{counters.num_preemptions} preempted" in row
    assert f"{counters.evicted_blocks} evicted" in row
    assert "step 60" in row and "smollm2" in row and row.endswith("● LIVE")


def test_trouble_is_told_first_and_never_left_out(shared_prefix) -> None:
    model = model_of(shared_prefix, 5)
    model.apply(ev.InvariantViolated(model.fold.last_seq + 1, 5, 0.0, "no duplicate on the free queue", "[1, 1]"))
    model.apply(ev.Gap(model.fold.last_seq + 1, 5, 0.0, 12))
    (row,) = rows(Header(), model, 80, 1)
    assert "1 INVARIANT VIOLATION" in row and "12 EVENTS LOST" in row


def test_the_log_ends_with_the_newest_decision(shared_prefix) -> None:
    shown = rows(EventLog(), model_of(shared_prefix), 60, 6)
    assert len(shown) == 6
    assert shown[-1].split()[-3:] == ["finishes", "by", "itself"]
