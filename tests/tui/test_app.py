"""The real app, driven by keys at the sizes people have: what is on the screen, and what it
costs.
"""

import asyncio
from threading import Thread

from support.full_disk import REASON, files_no_larger_than
from support.tui.driven_app import (
    FRAME,
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
from minivllm.tui.draw.theme import DARK, LIGHT
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.state.model import MODELS
from minivllm.tui.widgets.frame.boxes import PanelColumn, PanelRow
from minivllm.tui.widgets.frame.panel import Panel

WATCH = "The first blocks are computed once and shared."


def test_pausing_holds_the_picture_while_folding_goes_on(shared_prefix) -> None:
    app = app_for(shared_prefix.run(20))
    before = len(shared_prefix.events)

    async def script(pilot: Pilot) -> None:
        await pilot.press("space")
        held = all_drawn(app)
        for event in shared_prefix.run(15).events[before:]:
            put(app, event)
        await pilot.pause(FRAME)
        assert app.context.transport.recording.head.fold.step == 35
        assert app.model.fold.step == 20
        assert "PAUSED, 15 steps behind" in all_drawn(app)
        assert drawn(app, "slots") == [row for row in drawn(app, "slots") if row in held]
        # A still picture can be laid out anew and painted in other colours without moving on.
        await pilot.press("t")
        await pilot.resize_terminal(80, 24)
        await pilot.pause(FRAME)
        assert "step 20" in all_drawn(app)
        await pilot.press("end")
        await pilot.pause(FRAME)
        assert "step 35" in all_drawn(app) and "LIVE" in all_drawn(app)

    drive(app, script)


def test_no_cell_of_the_screen_keeps_the_ground_of_the_theme_before(shared_prefix) -> None:
    app = app_for(shared_prefix.run(20))

    def grounds() -> set[str]:
        """Also those of boxes, which lie bare where their panels leave room."""
        boxes = [one for kind in (PanelRow, PanelColumn) for one in app.screen.query(kind)]
        bare = [strip for one in boxes for strip in one.render_lines(one.size.region)]
        cells = [
            segment
            for strip in (*app.screen._compositor.render_strips(), *bare)
            for segment in strip
        ]
        return {
            cell.style.bgcolor.get_truecolor().hex
            for cell in cells
            if cell.style and cell.style.bgcolor
        }

    async def script(pilot: Pilot) -> None:
        text = all_drawn(app)
        for theme, other in ((DARK, LIGHT), (LIGHT, DARK), (DARK, LIGHT)):
            assert app.theme == theme.name and all_drawn(app) == text
            assert theme.background in grounds() and other.background not in grounds()
            await pilot.press("t")
            await settle(pilot)

    drive(app, script)


def test_the_summary_comes_from_another_thread_and_after_the_last_event(shared_prefix) -> None:
    app = DashboardApp(InProcessSource(shared_prefix.header, codec=MODELS), watch=WATCH)
    sentences = ["8 requests finished.", "Nobody was preempted. " * 12]

    def run() -> None:
        app.show_summary(sentences)
        for event in shared_prefix.run().events:
            put(app, event)

    async def script(pilot: Pilot) -> None:
        thread = Thread(target=run)
        thread.start()
        await asyncio.to_thread(thread.join)
        await until(pilot, lambda: app.model.fold.last_seq == shared_prefix.events[-1].seq)
        await until(pilot, lambda: panel(app, "summary").display)
        await settle(pilot)
        assert panel(app, "summary").border_title == "Finished: press q to leave"
        rows = " ".join(" ".join(drawn(app, "summary")).split())
        assert rows == " ".join(" ".join(sentences).split())
        assert "FINISHED" in drawn(app, "header")[0]
        assert not panel(app, "slots").display
        assert app.is_running

    drive(app, script)


def test_more_work_after_the_end_takes_the_summary_away_and_a_new_one_comes_after_it(
    shared_prefix,
) -> None:
    shared_prefix.run()
    before = len(shared_prefix.events)
    app = app_for(shared_prefix, watch=WATCH)

    async def script(pilot: Pilot) -> None:
        app.show_summary(["8 requests finished."], shared_prefix.events[-1].step)
        await until(pilot, lambda: "FINISHED" in drawn(app, "header")[0])
        engine = shared_prefix.engine
        engine.add_request("more", "What is salt made of ?", SamplingParams(max_tokens=3))
        engine._stepper.runner._answers["more"] = [1, 2, 3]
        engine.step()
        for event in shared_prefix.events[before:]:
            put(app, event)
        await until(pilot, lambda: "FINISHED" not in drawn(app, "header")[0])
        assert "LIVE" in drawn(app, "header")[0]
        await until(
            pilot, lambda: not panel(app, "summary").display and "more" in drawn(app, "slots")[0]
        )
        middle = len(shared_prefix.events)
        shared_prefix.run()
        for event in shared_prefix.events[middle:]:
            put(app, event)
        app.show_summary(["9 requests finished."], shared_prefix.events[-1].step)
        await until(pilot, lambda: "FINISHED" in drawn(app, "header")[0])
        await until(
            pilot, lambda: panel(app, "summary").display and not panel(app, "slots").display
        )
        await until(pilot, lambda: "9 requests finished." in "".join(drawn(app, "summary")))

    drive(app, script)


def test_a_recording_that_lost_events_is_told_in_the_top_line_while_the_run_goes_on(
    shared_prefix, tmp_path
) -> None:
    log = LogWriter(tmp_path / "run.jsonl", shared_prefix.header)
    source = InProcessSource(shared_prefix.header, codec=MODELS)
    app = DashboardApp(source, recorder=log)
    steps = [event.step for event in shared_prefix.run().events]

    async def script(pilot: Pilot) -> None:
        for event in shared_prefix.events[: steps.index(9)]:
            put(app, event)
            log.write(event)
        await pilot.pause(FRAME)
        assert "NOT RECORDED" not in all_drawn(app) and told(app) == []
        with files_no_larger_than((tmp_path / "run.jsonl").stat().st_size + 20):
            for event in shared_prefix.events[steps.index(9) : steps.index(11)]:
                log.write(event)
        await until(pilot, lambda: "NOT RECORDED FROM STEP 9" in drawn(app, "header")[0])
        sentence = f"The recording is whole only up to step 8: {REASON}."
        await until(pilot, lambda: told(app) == [sentence])
        assert "LIVE" in drawn(app, "header")[0], "the engine itself goes on"

    drive(app, script)


def test_a_frame_repaints_only_the_rows_that_changed(shared_prefix) -> None:
    app = app_for(shared_prefix.run(20))
    painted: list[tuple[str, int]] = []

    async def script(pilot: Pilot) -> None:
        for one in app.screen.query(Panel):
            # Count what is painted anew; a row that did not change comes from the panel's cache.
            original = one._paint
            one._paint = lambda *line, one=one, original=original: (
                painted.append(one.id),
                original(*line),
            )[1]
        token = ev.TokenSampled(app.model.fold.last_seq + 1, 20, 0.9, "r2.0", 1, " more")
        put(app, token)
        await pilot.pause(FRAME)
        # The slot's two rows (its count and its text), and nothing anywhere else.
        assert sorted(painted) == ["slots", "slots", "timeline"]
        assert drawn(app, "slots")[5].rstrip().endswith(" more")

    drive(app, script)


def test_on_another_screen_or_in_the_past_the_end_of_the_run_waits_for_the_reader(
    shared_prefix,
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


def test_an_answer_that_a_limit_cut_is_told_once_to_whom_asked(stage, ask) -> None:
    asks = [
        ask("user-1", "a question", "a long answer of many words", max_tokens=3),
        ask("user-2", "a question", "done"),
        ask("ada", "another", "a long answer of many words", max_tokens=3),
    ]
    run = stage(asks, max_num_seqs=1).run()
    app = DashboardApp(InProcessSource(run.header, codec=MODELS), control=FakeControl())

    async def script(pilot: Pilot) -> None:
        for event in run.events:
            put(app, event)
        await until(pilot, lambda: app.model.fold.last_seq == run.events[-1].seq and told(app))
        (sentence,) = told(app)
        assert sentence.startswith("user-1 ") and "cut at 3 tokens" in sentence
        app.clear_notifications()
        await settle(pilot)
        await pilot.press("home", "end")
        await settle(pilot)
        assert told(app) == [], "however often the picture goes back"

    drive(app, script)
