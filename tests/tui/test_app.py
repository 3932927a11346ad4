"""The real app, driven by keys at usual sizes: the picture, and its cost."""

import asyncio
from functools import partial
from math import inf

import pytest
from support.full_disk import REASON, files_no_larger_than
from support.tui.driven_app import all_drawn, app_for, drawn, drive, panel, put, settle, told, until
from support.tui.key_seat import FakeControl
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip

from minivllm.events import types as ev
from minivllm.events.recording.log import LogWriter
from minivllm.sampling_params import SamplingParams
from minivllm.tui.app import DashboardApp
from minivllm.tui.context import Figure
from minivllm.tui.draw.lines import text_of
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.state.model import MODELS
from minivllm.tui.widgets.frame.panel import Panel

WATCH = "The first blocks are computed once and shared."


def test_pausing_freezes_the_picture_while_folding_continues(shared_prefix) -> None:
    app = app_for(shared_prefix.run(20))
    before = len(shared_prefix.events)

    async def script(pilot: Pilot) -> None:
        await pilot.press("space")
        held = all_drawn(app)
        put(app, *shared_prefix.run(15).events[before:])
        await until(pilot, lambda: "step 20 of 35, engine runs on" in all_drawn(app))
        assert (app.context.transport.recording.head.fold.step, app.model.fold.step) == (35, 20)
        assert drawn(app, "slots") == [row for row in drawn(app, "slots") if row in held]
        # A paused picture can get a new layout and other colours.
        await pilot.press("t")
        await pilot.resize_terminal(80, 24)
        await settle(pilot)
        assert "step 20" in all_drawn(app)
        await pilot.press("end")
        await until(pilot, lambda: "step 35" in all_drawn(app) and "LIVE" in all_drawn(app))

    drive(app, script)


def test_the_summary_is_shown_after_the_last_event_until_more_work_comes(shared_prefix) -> None:
    app = DashboardApp(InProcessSource(shared_prefix.header, codec=MODELS), watch=WATCH)
    app.context.control = FakeControl(pauses_with_picture=True)
    engine, events = shared_prefix.engine, shared_prefix.events
    sentences = ["8 requests finished.", "Nobody was preempted. " * 12]
    figures = (Figure("42", "hits"), Figure("71%", "cached"))

    def header() -> str:
        return drawn(app, "header")[0]

    def run() -> None:
        shared_prefix.run()
        app.show_summary(sentences, events[-1].step, figures)
        put(app, *events)

    async def script(pilot: Pilot) -> None:
        await asyncio.to_thread(run)
        await until(pilot, lambda: "FINISHED" in header() and panel(app, "summary").display)
        await settle(pilot)
        assert app.model.fold.last_seq == events[-1].seq and not panel(app, "slots").display
        assert panel(app, "summary").border_title == "Finished"
        numbers, *rest, keys = drawn(app, "summary")
        assert "42 hits   71% cached" in numbers
        tops = [text_of(panel(app, "summary").rows(width)[0]) for width in range(40)]
        assert not [top for top in tops if "…" in top], "a figure that does not fit is left out"
        assert " ".join(rest).split() == " ".join(sentences).split()
        assert "R race" in keys and "q leave" in keys and "7 how" not in keys, "none is explained"
        said, cut = map(text_of, panel(app, "summary").lines(app.model, 60, 2))
        assert "…" in said and "q leave" in cut and "lesson 0" in keys and "lesson" not in cut
        app.model.explanations.judged["r0.0"] = []
        await pilot.press("space")
        await settle(pilot)
        assert "7 how a word was chosen" in drawn(app, "summary")[-1], "those of r0 are"
        assert panel(app, "summary").display and "The run is over" in told(app)[-1]
        assert panel(app, "summary").rows(len(numbers.rstrip()))[0][-1][0] == " cached"
        await pilot.press("left")
        await until(pilot, lambda: f"of {events[-1].step}" in header())
        await pilot.press("right")
        await until(pilot, lambda: "FINISHED" in header() and panel(app, "summary").display)
        wanted = app.dashboard_screen.keybar.wanted().keys()
        without_effect = {"time.step", "time.live", "engine.phase", "engine.abort"}
        assert not wanted & without_effect and "time.step_back" in wanted
        await pilot.press("end")
        before = len(events)
        engine.add_request("more", "What is salt made of ?", SamplingParams(max_tokens=3))
        engine.core.runner.plain.answers["more"] = [1, 2, 3]
        engine.step()
        put(app, *events[before:])
        await until(pilot, lambda: "LIVE" in header() and "more" in all_drawn(app))
        assert not panel(app, "summary").display
        before = len(events)
        shared_prefix.run()
        put(app, *events[before:])
        app.show_summary(["9 requests finished."], events[-1].step)
        await until(pilot, lambda: "FINISHED" in header() and not panel(app, "slots").display)
        await until(pilot, lambda: "9 requests finished." in "".join(drawn(app, "summary")))

    drive(app, script)


def test_a_recording_that_loses_events_is_reported_in_the_top_line(shared_prefix, tmp_path):
    log = LogWriter(tmp_path / "run.jsonl", shared_prefix.header)
    source = InProcessSource(shared_prefix.header, codec=MODELS)
    app = DashboardApp(source, recorder=log)
    steps = [event.step for event in shared_prefix.run().events]

    async def script(pilot: Pilot) -> None:
        put(app, *shared_prefix.events[: steps.index(9)])
        for event in shared_prefix.events[: steps.index(9)]:
            log.write(event)
        await until(pilot, lambda: app.model.fold.step == 8)
        assert "NOT RECORDED" not in all_drawn(app) and told(app) == []
        with files_no_larger_than((tmp_path / "run.jsonl").stat().st_size + 20):
            for event in shared_prefix.events[steps.index(9) : steps.index(11)]:
                log.write(event)
        await until(pilot, lambda: "NOT RECORDED FROM STEP 9" in drawn(app, "header")[0])
        sentence = f"The recording is complete only up to step 8: {REASON}."
        await until(pilot, lambda: told(app) == [sentence])
        assert "LIVE" in drawn(app, "header")[0], "the engine itself goes on"

    drive(app, script)


def test_frames_are_left_out_where_drawing_is_slow_but_no_change_is(memory_pressure, monkeypatch):
    app, draws = app_for(memory_pressure.run(20), state="paused"), []

    async def script(pilot: Pilot) -> None:
        monkeypatch.setattr(app, "draw", lambda: draws.append(app._credit))
        app.allowance = app._credit = -1.0
        app.context.transport.play()
        app._frame()
        assert not draws
        app.allowance = inf
        app._frame()
        app._frame()
        assert len(draws) == 1

    drive(app, script)


def test_a_frame_repaints_only_the_rows_that_changed(shared_prefix) -> None:
    app, painted = app_for(shared_prefix.run(20)), list[str]()

    async def script(pilot: Pilot) -> None:
        for pane in app.screen.query(Panel):
            # Count painted rows; Textual keeps the unchanged ones.
            pane._segments = lambda y, id=pane.id, was=pane._segments: painted.append(id) or was(y)
        put(app, ev.TokenSampled(app.model.fold.last_seq + 1, 20, 0.9, "r2.0", 1, " more"))
        await until(pilot, lambda: len(painted) >= 3)
        # The slot's two rows (count and text), and no others.
        assert sorted(painted) == ["slots", "slots", "timeline"]
        assert drawn(app, "slots")[5].rstrip().endswith(" more")

    drive(app, script)


def terminal_of(app: DashboardApp) -> list[Strip]:
    """The rows of a terminal, in which only what Textual sends is painted."""
    rows = list[Strip]()

    def display(_: Screen, update: LayoutUpdate | ChopsUpdate | None) -> None:
        if isinstance(update, LayoutUpdate):
            rows[:] = map(Strip.join, update.strips)
        for y, first, last in getattr(update, "spans", ()):
            for end, (x, part) in zip(update.chop_ends[y], update.chops[y].items(), strict=True):
                if part is not None and x < last and end > first:
                    part, row = part.crop(0, last - x), rows[y]
                    rows[y] = Strip.join([row.crop(0, x), part, row.crop(x + part.cell_length)])

    app._display = display
    return rows


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
def test_rows_that_are_painted_alone_look_as_in_a_whole_picture(size, memory_pressure) -> None:
    app = app_for(memory_pressure.run(60))
    terminal = terminal_of(app)

    async def check(pilot: Pilot, what: object) -> None:
        app.draw()
        # As if a hidden panel had asked to be painted: Textual then looks for its place.
        app.screen._compositor._full_map_invalidated = True
        await settle(pilot)
        painted = [list(row.simplify()) for row in terminal]
        for shown in app.screen.query(Panel):
            shown.refresh()
        await settle(pilot)
        whole = app.screen._compositor.render_strips()
        assert painted == [list(row.simplify()) for row in whole], what

    async def script(pilot: Pilot) -> None:
        for step in (3, 4, 20, 21, 60):
            app.context.transport.to_step(step)
            for shown in app.screen.query(Panel):  # as if it had been higher
                shown._lines = [*shown._lines, *[(("x", "text"),)] * 30]
            await check(pilot, step)
        place, tell = panel(app, "blockmap").region, partial(app.tell, "Nothing is selected.")
        for key in "1234567":
            await pilot.press(key)
            await settle(pilot)
            assert all(shown._lines or not shown.size.height for shown in app.screen.panels), key
            for change in (app.look_keys.why, app.close_sentences, tell, app.forget):
                change()
                await pilot.pause()
                await check(pilot, (key, change))
                notice = " ".join(drawn(app, "notice"))
                assert all(said[:20] in notice for said in told(app))
                assert not any(toast.region for toast in app.screen.query("Toast"))
                assert key != "1" or panel(app, "blockmap").region == place or size == (80, 24)

    drive(app, script, size)
