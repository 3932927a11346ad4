"""The Compare screen: each side shows its own recording, and marked differences are real."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from support.engine.random_runs import folded
from support.tui.driven_app import app_for, drawn, drive, press, show_screen, source_of, told
from support.tui.memory_recording import MemoryRecording, context_of
from support.tui.shown import missing_from, rows
from textual.pilot import Pilot

from minivllm.events import types as ev
from minivllm.tui.widgets.compare.comparison import Comparison, PlanSearch
from minivllm.tui.widgets.compare.race_line import RaceLine
from minivllm.tui.widgets.compare.side import Side


@pytest.fixture
def two(stage, ask):
    """The same requests with four slots and a large budget, and with two slots and a small one."""

    def make(**options):
        prompts = [" ".join(f"w{index}{k}" for k in range(30)) for index in range(6)]
        said = "a b c d e f g h i j k l m"
        asks = [ask(f"r{at}", prompt, said, at, 40) for at, prompt in enumerate(prompts)]
        return stage(asks, num_blocks=24, **options).run()

    return make(), make(max_num_seqs=2, max_num_batched_tokens=16)


def side(panel: Side | Comparison, context, width: int, height: int) -> list[str]:
    panel.context = context
    shown = context.second if getattr(panel, "_is_second", False) else context.transport
    return rows(panel, shown.view, width, height)


def compared(context, width: int, height: int) -> list[str]:
    return side(Comparison(), context, width, height)


def test_each_side_shows_its_own_policy_with_the_differences_first_and_marked(two) -> None:
    context = context_of(two[0], other=two[1])
    for label, facts in (("A", ("≠ budget 64", "≠ slots 4")), ("B", ("≠ budget 16", "≠ slots 2"))):
        shown = "\n".join(side(Side(label, is_second=label == "B"), context, 110, 20))
        assert all(fact in shown for fact in facts) and shown.count("≠") == 2


def test_both_maps_have_one_grid_where_the_pools_are_of_one_size(stage, ask) -> None:
    asks, grids = [ask(f"r{at}", f"{at} " * 99, "x") for at in range(4)], []
    runs = [stage(some, num_blocks=300).run() for some in (asks, asks[:1])]
    context = context_of(runs[0], other=runs[1])
    for at, run in enumerate(runs):
        panel = Side("AB"[at], is_second=at == 1)
        side(panel, context, 38, 11)
        grids.append(panel._map._lay_out(folded(run), 38, 4))
    assert grids[0] == grids[1]


def test_two_recordings_are_named_by_what_differs_and_end_with_a_verdict(two) -> None:
    for run in two:
        run.header = structs.replace(run.header, clock="monotonic")
    context, line = context_of(two[0], other=two[1]), RaceLine()
    for transport, name in ((context.transport, "wide"), (context.second, "narrow")):
        transport.recording.name = f"runs/{name}.jsonl"
    panels = line, *(Side(label, is_second=label == "B") for label in "AB")
    for panel in panels:
        panel.context = context
    titles = [panel.title(context.transport.view, 80) for panel in panels[1:]]
    assert titles == ["A: wide, budget 64, slots 4", "B: narrow, budget 16, slots 2"]
    assert line.note() == "A won: B runs at most 2 sequences at once."
    context.transport.to_step(5)
    assert line.note() == "", "they have not ended"


@pytest.mark.parametrize("step", [0, 12, 10**6])
def test_the_numbers_of_each_side_are_those_of_its_fold(step: int, two) -> None:
    context = context_of(two[0], other=two[1])
    for label, transport in (("A", context.transport), ("B", context.second)):
        transport.to_step(step)
        text = " ".join(side(Side(label, is_second=label == "B"), context, 78, 12))
        fold, counters = transport.view.fold, transport.view.fold.counters
        state = f"step {fold.step}", f"{len(fold.running)} run {len(fold.waiting)} wait"
        counts = f"{counters.generation_tokens} tokens", f"{counters.finished_requests} done"
        assert all(fact in text for fact in (*state, *counts))
        assert ("■ END" in text) == transport.at_end


@given(st.data())
@settings(max_examples=25)
def test_plans_diverge_where_a_plain_reading_finds_it(data: st.DataObject) -> None:
    """Both share their steps up to some step; the recordings grow while they are read."""

    def events(steps: list[int]) -> list[ev.Event]:
        made: list[ev.Event] = []
        for step, tokens in enumerate(steps, start=1):
            made.append(ev.StepBegin(len(made), step, 0.0, 64))
            if tokens:
                made.append(ev.StepScheduled(len(made), step, 0.0, "r0.0", tokens, "decode", 0))
            made.append(ev.StepEnd(len(made), step, 0.0, tokens, 0, 0, 0, 0))
        return made

    some = st.lists(st.integers(0, 3), max_size=400)
    same = data.draw(some)
    steps = same + data.draw(some), same + data.draw(some)
    whole = [events(side) for side in steps]
    grown = [MemoryRecording(None, []), MemoryRecording(None, [])]
    search = PlanSearch(*grown)
    expected = next((i + 1 for i, (x, y) in enumerate(zip(*steps, strict=False)) if x != y), None)
    if expected is None and len(steps[0]) != len(steps[1]):
        expected = min(map(len, steps)) + 1
    for part in (0.3, 0.7, 1.0):
        for recording, all_of_it in zip(grown, whole, strict=True):
            recording.all = all_of_it[: int(part * len(all_of_it))]
        for _ in range(20):
            read = sum(recording.num_read for recording in grown)
            search.look(part == 1.0, part == 1.0)
            assert sum(recording.num_read for recording in grown) - read <= 2000
        if part < 1.0 and search.parting is not None:
            assert None not in search.parting[1:], "what is still growing has not ended"
    assert (None if search.parting is None else search.parting.step) == expected
    assert not search.has_more
    if expected is None:
        assert search.same_up_to == (len(steps[0]) or -1)


def test_the_table_gives_both_numbers_and_their_ratio(two) -> None:
    context = context_of(two[0], other=two[1])
    context.second.to_step(20)
    context.transport.to_step(20)
    text = "\n".join(compared(context, 100, 40))
    a, b = context.transport.view.fold.counters, context.second.view.fold.counters
    fields = {"output tokens": "generation_tokens", "tokens computed": "scheduled_tokens"}
    for name, field in fields.items():
        x, y = getattr(a, field), getattr(b, field)
        assert x != y and re.search(rf"{name} +{x} +{y} +×{y / x:.2f}\b", text)
    assert re.search(r"aborted +0 +0 +=", text)
    low = "\n".join(compared(context, 80, 6))
    assert "B/A\ntokens per" in low, "with little room, who is faster comes first"


def test_free_queues_that_differ_are_shown_where_the_block_maps_are_the_same(two) -> None:
    context = context_of(two[0], other=two[0])
    assert "free queue" not in "".join(compared(context, 100, 40))
    queue = context.second.view.fold.free_queue
    queue.move_to_end(third := list(queue)[2])
    a, b = (row for row in compared(context, 200, 40) if "free queue" in row)
    assert f" from place 3 on: {third}" in a and b.endswith(f"{third}")


def test_the_second_recording_goes_to_the_same_place_of_the_same_step(two) -> None:
    app = app_for(two[0], other=source_of(two[1]))

    async def script(pilot: Pilot) -> None:
        await show_screen(pilot, "compare")
        for words, number in (("3", 3), ("9", 9), ("4", 4)):
            await press(pilot, "g", *words, "enter")
            assert app.context.second.view.fold.step == number
        await press(pilot, *3 * ["right_square_bracket"])  # into step 5
        second = app.context.second
        assert second.position == second.recording.step_begin(5) + 3
        shown = "\n".join(drawn(app, "comparison"))
        assert missing_from(shown, "step 1", "output tokens", "B/A") == []
        app.dashboard_screen.query_one("#side-b").focus()
        await press(pilot, "w")
        assert "of 2 free" in told(app)[0], "B has two slots"

    drive(app, script)
