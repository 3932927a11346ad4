"""The real app, driven by keys at usual sizes: the picture, and its cost."""

import asyncio
from threading import Thread

from support.full_disk import REASON, files_no_larger_than
from support.tui.driven_app import (
    all_drawn,
    app_for,
    drawn,
    drive,
    panel,
    put,
    settle,
    told,
    until,
)
from support.tui.key_seat import FakeControl
from textual.pilot import Pilot

from minivllm.events import types as ev
from minivllm.events.recording.log import LogWriter
from minivllm.sampling_params import SamplingParams
from minivllm.tui.app import DashboardApp
from minivllm.tui.context import Figure
from minivllm.tui.draw.theme import DARK, LIGHT
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.state.model import MODELS
from minivllm.tui.widgets.frame.boxes import PanelColumn, PanelRow
from minivllm.tui.widgets.frame.panel import Panel

WATCH = "The first blocks are computed once and shared."


def test_pausing_freezes_the_picture_while_folding_continues(shared_prefix, no_footer) -> None:
    app = app_for(shared_prefix.run(20))
    before = len(shared_prefix.events)

    async def script(pilot: Pilot) -> None:
        await pilot.press("space")
        held = all_drawn(app)
        put(app, *shared_prefix.run(15).events[before:])
        await until(pilot, lambda: "PICTURE PAUSED, 15 steps behind" in all_drawn(app))
        assert app.context.transport.recording.head.fold.step == 35
        assert app.model.fold.step == 20
        assert drawn(app, "slots") == [row for row in drawn(app, "slots") if row in held]
        # A paused picture can get a new layout and other colours.
        await pilot.press("t")
        await pilot.resize_terminal(80, 24)
        await settle(pilot)
        assert "step 20" in all_drawn(app)
        await pilot.press("end")
        await until(pilot, lambda: "step 35" in all_drawn(app) and "LIVE" in all_drawn(app))

    drive(app, script)


def test_no_cell_keeps_the_background_of_the_old_theme(shared_prefix, no_footer) -> None:
    app = app_for(shared_prefix.run(20))

    def grounds() -> set[str]:
        """Colours of all cells, also of the boxes around panels."""
        strips = app.screen._compositor.render_strips()
        for box in (*app.screen.query(PanelRow), *app.screen.query(PanelColumn)):
            strips += box.render_lines(box.size.region)
        styles = [cell.style for strip in strips for cell in strip if cell.style]
        return {style.bgcolor.get_truecolor().hex for style in styles if style.bgcolor}

    async def script(pilot: Pilot) -> None:
        text = all_drawn(app)
        for theme, other in ((DARK, LIGHT), (LIGHT, DARK), (DARK, LIGHT)):
            assert app.theme == theme.name and all_drawn(app) == text
            assert theme.background in grounds() and other.background not in grounds()
            await pilot.press("t")
            await settle(pilot)

    drive(app, script)


def test_the_summary_from_another_thread_is_shown_after_the_last_event_until_more_work_comes(
    shared_prefix,
    no_footer,
) -> None:
    app = DashboardApp(InProcessSource(shared_prefix.header, codec=MODELS), watch=WATCH)
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
        thread = Thread(target=run)
        thread.start()
        await asyncio.to_thread(thread.join)
        await until(pilot, lambda: "FINISHED" in header() and panel(app, "summary").display)
        await settle(pilot)
        assert app.model.fold.last_seq == events[-1].seq and not panel(app, "slots").display
        assert panel(app, "summary").border_title == "Finished: press q to leave"
        *digits, labels = drawn(app, "summary")[:4]
        assert digits[0].split() == ["╻", "╻╺━┓", "╺━┓╺┓"] and labels.split() == ["hits", "cached"]
        assert " ".join(drawn(app, "summary")[4:]).split() == " ".join(sentences).split()
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "42 hits   71% cached" in drawn(app, "summary")[0])
        await pilot.resize_terminal(120, 36)
        before = len(events)
        engine.add_request("more", "What is salt made of ?", SamplingParams(max_tokens=3))
        engine._stepper.runner.answers["more"] = [1, 2, 3]
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


def test_a_recording_that_lost_events_is_reported_in_the_top_line_during_the_run(
    shared_prefix, tmp_path, no_footer
) -> None:
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


def test_a_frame_repaints_only_the_rows_that_changed(shared_prefix, no_footer) -> None:
    app = app_for(shared_prefix.run(20))
    painted: list[str] = []

    async def script(pilot: Pilot) -> None:
        for one in app.screen.query(Panel):
            # Count painted rows; unchanged rows come from the panel's cache.
            original = one._paint
            one._paint = lambda *line, one=one, original=original: (
                painted.append(one.id),
                original(*line),
            )[1]
        token = ev.TokenSampled(app.model.fold.last_seq + 1, 20, 0.9, "r2.0", 1, " more")
        put(app, token)
        await until(pilot, lambda: len(painted) >= 3)
        # The slot's two rows (count and text), and no others.
        assert sorted(painted) == ["slots", "slots", "timeline"]
        assert drawn(app, "slots")[5].rstrip().endswith(" more")

    drive(app, script)


def test_on_another_screen_or_in_the_past_the_end_of_the_run_waits_for_the_reader(
    shared_prefix,
    no_footer,
) -> None:
    app = app_for(shared_prefix.run(20))

    async def script(pilot: Pilot) -> None:
        await pilot.press("4")
        app.show_summary(["The run was stopped."])
        await until(pilot, lambda: told(app))
        assert "press 1" in told(app)[0]
        await pilot.press("space", "1")
        await settle(pilot)
        assert not panel(app, "summary").display, "a held picture is held to the end"
        await pilot.press("end")
        await until(pilot, lambda: "The run was stopped." in "".join(drawn(app, "summary")))
        assert panel(app, "slots").display and "r0" in drawn(app, "slots")[0], "it was cut short"

    drive(app, script)


def test_an_answer_cut_by_a_limit_is_reported_once(stage, ask, no_footer) -> None:
    asks = [
        ask("user-1", "a question", "a long answer of many words", max_tokens=3),
        ask("user-2", "a question", "done"),
        ask("ada", "another", "a long answer of many words", max_tokens=3),
    ]
    run = stage(asks, max_num_seqs=1).run()
    app = DashboardApp(InProcessSource(run.header, codec=MODELS), control=FakeControl())

    async def script(pilot: Pilot) -> None:
        put(app, *run.events)
        await until(pilot, lambda: app.model.fold.last_seq == run.events[-1].seq and told(app))
        (sentence,) = told(app)
        assert sentence.startswith("user-1 ") and "cut at 3 tokens" in sentence
        app.clear_notifications()
        await settle(pilot)
        await pilot.press("home", "end")
        await settle(pilot)
        assert told(app) == [], "however often the picture goes back"

    drive(app, script)
