"""The history of steps, the selected step, and the decisions: their rows match the events."""

import re
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st
from support.engine.random_runs import OPTIONS, REQUESTS, RUNS, folded, run_of
from support.tui.shown import missing_from, rows

from minivllm.events import types as ev
from minivllm.tui.draw.selection import step
from minivllm.tui.state.histories import SHARES_KEPT, Share
from minivllm.tui.widgets.steps.bars import bar_parts
from minivllm.tui.widgets.steps.step_detail import StepDetail
from minivllm.tui.widgets.steps.step_history import StepHistory


def by_step(events: list[ev.Event], kind: type[ev.Event]) -> dict[int, list[ev.Event]]:
    """Step -> its events of a kind."""
    found = defaultdict(list)
    for event in events:
        if isinstance(event, kind):
            found[event.step].append(event)
    return found


def numbers_of(row: str) -> list[int]:
    """Decodes, prefills, hits, evictions and preemptions in a row of the history."""
    after_the_bar = row.split()[2:7]
    return [0 if word == "·" else int(word.replace(",", "")) for word in after_the_bar]


@RUNS
@given(REQUESTS, OPTIONS)
def test_the_split_of_every_step_sums_to_the_plan(stage, ask, requests, options) -> None:
    run = run_of(stage, ask, requests, options)
    model, planned = folded(run), by_step(run.events, ev.StepScheduled)
    used = {event.step: event.used for event in run.events if isinstance(event, ev.StepEnd)}
    deferred = {event.step for event in run.events if isinstance(event, ev.RequestDeferred)}
    assert [record.step for record in model.steps.records] == sorted(used)
    panel, height = StepHistory(), len(used) + 2
    shown = rows(panel, model, 118, height)[-len(used) :]
    for record, row in zip(model.steps.records, shown, strict=True):
        plan = planned[record.step]
        by_kind = [
            sum(event.num_tokens for event in plan if event.kind == kind)
            for kind in ("decode", "prefill")
        ]
        assert [record.decode_tokens, record.prefill_tokens] == by_kind == numbers_of(row)[:2]
        assert record.used == used[record.step] <= record.budget
        if record.shares:
            assert record.shares == [(event.seq_id, event.kind, event.num_tokens) for event in plan]
        if record.used < record.budget:
            assert ("none waiting" in row) == (record.step not in deferred)


def test_a_row_has_the_counts_and_the_reason_for_unused_budget(memory_pressure) -> None:
    model, seen = folded(memory_pressure.run(60)), set()
    shown = rows(StepHistory(), model, 118, 62)[1:]
    for record, row in zip(model.steps.records, shown, strict=True):
        of_step = [event for event in memory_pressure.events if event.step == record.step]
        kinds = (ev.BlockHit, ev.BlockEvicted, ev.RequestPreempted)
        counts = [sum(isinstance(e, kind) for e in of_step) for kind in kinds]
        assert numbers_of(row)[2:] == counts
        seen |= {kind for kind, count in enumerate(counts) if count}
        deferred = [event for event in of_step if isinstance(event, ev.RequestDeferred)]
        if deferred and deferred[0].reason == "no_blocks":
            assert f"{deferred[0].need} block" in row and f"{deferred[0].free} free" in row
    assert seen == {1, 2}


def test_the_selected_step_lists_its_items_and_its_preemptions(memory_pressure) -> None:
    model, panel, preempted = folded(memory_pressure.run(60)), StepDetail(), 0
    gave_way = by_step(memory_pressure.events, ev.RequestPreempted)
    for record in model.steps.records[-SHARES_KEPT:]:
        text = "\n".join(rows(panel, model, 110, 20, step(record.step)))
        assert missing_from(text, record.step, record.used, record.budget) == []
        assert record.shares
        for seq_id, kind, num_tokens in record.shares:
            assert re.search(rf"{seq_id.removesuffix('.0')} +{kind} +{num_tokens}$", text, re.M)
        for event in gave_way.get(record.step, ()):
            names = (event.seq_id.removesuffix(".0"), event.victim_of.removesuffix(".0"))
            assert missing_from(text, *names, "preempted", event.need, event.free) == []
            preempted += 1
    assert preempted == 2


@given(st.lists(st.integers(1, 400), max_size=70), st.integers(0, 500), st.integers(0, 90))
def test_a_bar_fits_its_row_and_has_a_part_for_each_sequence(sizes, spare, width) -> None:
    parts = [Share(f"s{number}", "prefill", size) for number, size in enumerate(sizes)]
    used, budget = sum(sizes), sum(sizes) + spare
    cells = bar_parts(parts, budget, width)
    assert len(cells) <= width
    assert bool(cells) == bool(used and width)
    if used and width:
        # To scale, except for cells added so that every sequence is visible.
        assert len(cells) <= max(round(used * width / budget), 1) + max(width // 3, 1)
        assert len(cells) < width or width == 1 or not spare
        assert len(cells) >= min(round(used * width / budget), width - 1)
    order = [parts.index(cell) for cell in cells if cell is not None]
    assert order == sorted(order)
    if None not in cells and cells:
        assert set(cells) == set(parts)
