"""The Events screen: rows of the recording, a cursor that moves in time, and a gradual filter."""

import pytest
from support.tui.driven_app import app_for, drive, press, redraw, show_screen
from support.tui.memory_recording import context_of
from textual.pilot import Pilot

from minivllm.events import types as ev
from minivllm.tui.answers.code import meaning_of
from minivllm.tui.draw.lines import text_of
from minivllm.tui.widgets.events.event_detail import EventDetail
from minivllm.tui.widgets.events.event_list import EventList
from minivllm.tui.widgets.frame.panel import Panel


def panel_at(kind: type[Panel], run, position: int, word: str = "") -> Panel:
    panel = kind()
    panel.context = context_of(run, position)
    panel.context.event_filter = word
    return panel


def drawn(panel: Panel, width: int, height: int) -> list[str]:
    return [text_of(line) for line in panel.lines(panel.context.transport.view, width, height)]


@pytest.mark.parametrize("scenario", ["memory_pressure", "beams"], indirect=True)
def test_each_row_is_an_event_of_the_recording_and_the_last_one_is_marked(scenario) -> None:
    run = scenario.run(40)
    total = len(run.events)
    for position in (0, 1, 7, total // 2, total - 3, total):
        rows = drawn(panel_at(EventList, run, position), 110, 21)[1:]
        seqs = [int(row[2:].split()[0]) for row in rows]
        assert seqs == list(range(seqs[0], seqs[0] + 20))
        for row, seq in zip(rows, seqs, strict=True):
            event = run.events[seq]
            assert event.__struct_config__.tag in row and f" {event.step} " in row
            assert row.startswith("▶") == (seq == position - 1)
        assert position == 0 or position - 1 in seqs


def test_the_detail_shows_every_field_the_meaning_and_the_function(memory_pressure) -> None:
    run = memory_pressure.run(60)
    index = next(at for at, e in enumerate(run.events) if isinstance(e, ev.RequestPreempted))
    event = run.events[index]
    facts = [*event.__struct_fields__, event.seq_id, event.victim_of]
    text = "\n".join(drawn(panel_at(EventDetail, run, index + 1), 60, 40))
    assert [fact for fact in facts if fact not in text] == []
    assert meaning_of(ev.RequestPreempted)[:30] in text and event.rule.partition(":")[2] in text
    hidden = drawn(panel_at(EventDetail, run, index + 1, "!preempted"), 60, 9)
    assert "not in the list" in " ".join(hidden) and event.rule not in " ".join(hidden)
    low = "\n".join(drawn(panel_at(EventDetail, run, index + 1), 78, 8))
    assert "victim_of" in low and event.rule.partition(":")[2] in low


async def at(pilot: Pilot, position: int) -> None:
    """Move to another place in time."""
    pilot.app.context.transport.to_position(position)
    await redraw(pilot)


def test_the_cursor_moves_through_time_and_from_match_to_match(memory_pressure) -> None:
    run = memory_pressure.run()
    app = app_for(run)
    transport = app.context.transport
    preempted = [event.seq for event in run.events if isinstance(event, ev.RequestPreempted)]

    async def goes_to(pilot: Pilot, key: str, position: int) -> None:
        await press(pilot, key)
        assert transport.position == position and app.context.selection.event_seq == position - 1
        assert transport.view.fold.last_seq == position - 1

    async def script(pilot: Pilot) -> None:
        await show_screen(pilot, "events")
        await at(pilot, 100)
        assert app.focused.id == "events"
        await goes_to(pilot, "down", 101)
        await goes_to(pilot, "down", 102)
        await goes_to(pilot, "up", 101)
        await goes_to(pilot, "pagedown", 113)
        await goes_to(pilot, "pageup", 101)
        await at(pilot, 1)
        await pilot.press("pageup")
        assert transport.position == 1
        app.context.event_filter = "preempted"
        await at(pilot, 100)
        await goes_to(pilot, "down", preempted[0] + 1)
        await goes_to(pilot, "down", preempted[1] + 1)
        await goes_to(pilot, "up", preempted[0] + 1)
        await at(pilot, preempted[1] + 5)
        await goes_to(pilot, "up", preempted[1] + 1)

    drive(app, script)
