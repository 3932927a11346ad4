"""The two sides of a race: each figure is that of its events. For the runs see tests/more/tui."""

import re
from types import SimpleNamespace
from typing import get_args

import pytest
from msgspec import structs
from support.tui.driven_app import app_for, drawn, drive, keys_of, press, redraw
from support.tui.key_seat import FakeControl
from support.tui.memory_recording import context_of, transport_of
from textual.pilot import Pilot
from textual.widgets import Input

from minivllm.configurations import parse_configuration
from minivllm.events import types as ev
from minivllm.events.kv_usage import KVUsageMeter
from minivllm.tui.control import Entry
from minivllm.tui.draw.lines import text_of
from minivllm.tui.state.decisions import deferral
from minivllm.tui.time.follow import follow, seconds_at
from minivllm.tui.time.transport import Transport
from minivllm.tui.widgets.compare.side import Side, waiting


def test_the_same_second_has_as_many_events_of_the_moment(stage, ask, memory_pressure) -> None:
    asks = [ask(f"r{n}", "one two three", "a b c d e f g", arrives=n) for n in range(5)]
    first, second = transport_of(stage(asks).run(), 0), transport_of(memory_pressure.run(20), 0)
    runs, alike = (first.recording.all, second.recording.all), Transport(first.source, "paused")
    ours, theirs = ([event.t - run[0].t for event in run] for run in runs)
    for position in range(0, len(ours), 5):
        first.to_position(position)
        follow(first, second, "second")
        passed = ours[position - 1] if position else 0
        assert seconds_at(first) == passed
        now = min(theirs.count(passed), ours[:position].count(passed))
        assert second.position == sum(t < passed for t in theirs) + now
        follow(first, second, "step")
        assert second.view.fold.step == min(first.view.fold.step, 20)
        follow(first, alike, "second")
        assert alike.position == position, "the next step may begin when this one ends"


@pytest.mark.parametrize("shape", [(58, 24, "virtual"), (58, 24, "monotonic"), (38, 13, "virtual")])
def test_what_is_wasted_and_who_waits_is_that_of_the_events(shape, memory_pressure) -> None:
    width, height, clock = shape
    run = memory_pressure.run()
    run.header = structs.replace(run.header, clock=clock)
    context, panel = context_of(run, other=run), Side("A", is_second=False)
    panel.context = context
    for step in (1, 7, 20, 40, 10**6):
        context.transport.to_step(step)
        fold = context.transport.view.fold
        rows = [text_of(line) for line in panel.lines(context.transport.view, width, height)]
        shown = "\n".join(rows)
        if fold.running:
            usage = KVUsageMeter(run.header, fold).now()
            empty = (usage.reserved + usage.internal) / run.header.block_size
            blocks = usage.allocated // run.header.block_size
            assert re.search(rf"wasted: {empty:,.1f} of {blocks} blocks.*{usage.waste:.0%}", shown)
        else:
            assert "no sequence is running" in shown and "wast" not in shown
        names = ", ".join(seq_id.removesuffix(".0") for seq_id in fold.waiting)
        if names:
            assert f"{len(fold.waiting)} wait: {names}" in shown or f"1 waits: {names}" in shown
            for reason in get_args(ev.DeferReason):
                why = fold.sequences[fold.waiting[0]].deferred = reason, 12, 10
                (_, row) = waiting(context.transport.view, 38)
                assert deferral(*why, fold.max_num_seqs) in text_of(row), "a side of 80 columns"
        else:
            assert ("nobody waits" if fold.running else "nobody runs or waits") in shown
        if height >= 14:
            made, seconds = fold.counters.generation_tokens, seconds_at(context.transport)
            speed = f"{made / seconds:.0f}" if clock == "monotonic" else f"{made / fold.step:.1f}"
            assert rows[0].startswith(f"{speed} output tokens per ")


def test_a_question_of_the_chooser_fills_in_two_known_configurations(memory_pressure) -> None:
    app = app_for(memory_pressure.run(20), state="paused")

    async def script(pilot: Pilot) -> None:
        await press(pilot, "R")
        a, b = app.screen.query(Input)
        seen = [(a.value, b.value)]
        while len(seen) < 2 or seen[-1] != seen[0]:
            assert parse_configuration(a.value).options != parse_configuration(b.value).options
            await pilot.press("down")
            seen.append((a.value, b.value))
        assert ("paged", "paged+blocks-x2") in seen and ("paged", "paged+slots-x2") in seen
        await pilot.press("up", "tab", "down")
        assert (a.value, b.value) == seen[0], "in the second field, too"
        a.value = ""
        await pilot.press("enter")
        hint = app.screen.query_one("#hint")
        assert "A and B need one part each" in str(hint.render())
        a.value = "draft_model"  # a race has no model that could draft
        await pilot.press("enter")
        offered = str(hint.render()).partition("use ")[2]
        a.value = "paged"
        await pilot.pause()
        assert str(hint.render()).endswith(f": {offered}"), "instead of what is mended"
        # After a race whose slower side was asked for second, the question is still marked.
        await pilot.press("escape")
        asked = Entry("paged", "paged+slots-x2")
        race = {"state": "over", "asked": asked, "names": Entry(*reversed(asked)), "poll": bool}
        app.context.race = SimpleNamespace(close=bool, **race)
        await press(pilot, "R")
        a, b = app.screen.query(Input)
        assert (a.value, b.value) == asked
        assert "> Would twice the slots help?" in str(app.screen.query_one("#hint").render())

    drive(app, script)


def test_the_top_line_and_space_tell_the_truth_in_a_race_and_at_an_end(memory_pressure) -> None:
    app = app_for(memory_pressure.run(20), control=FakeControl())

    async def script(pilot: Pilot) -> None:
        own, side = app.context.transport, transport_of(memory_pressure.run(), 5)
        app.context.behind, app.context.transport = (own, None), side
        for place, status in ((5, "PAUSED at step"), (10**6, "END")):
            side.to_position(place)
            await redraw(pilot)
            top = drawn(app, "header")[0]
            assert status in top and "engine" not in top
        assert keys_of(app)["Replay"] == "space"
        for _ in range(2):
            await pilot.press("space")
            assert (side.state, side.position) == ("playing", 0)
            side.to_live()

    drive(app, script)
