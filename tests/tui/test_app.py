"""The real app, driven by keys at the sizes people have: what is on the screen, and what it costs."""

import asyncio
import time
from threading import Thread

import pytest
from support.full_disk import REASON, files_no_larger_than
from support.tui.driven_app import FRAME, SIZES, all_drawn, drawn, drive, panel, put, settle, source_of, told, until
from support.tui.fake_control import FakeControl
from textual.geometry import Region
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


def app_for(stage, watch: str = WATCH, **options: object) -> DashboardApp:
    return DashboardApp(source_of(stage), watch=watch, **options)


@pytest.mark.parametrize("size", SIZES)
def test_every_panel_has_its_place_and_shows_the_run(size: tuple[int, int], shared_prefix) -> None:
    app = app_for(shared_prefix.run(22))

    async def script(pilot: Pilot) -> None:
        shown = [p for p in app.screen.query(Panel) if p.display and p.region.area]
        screen = Region(0, 0, *size)
        for number, one in enumerate(shown):
            assert screen.contains_region(one.region), one
            assert one.content_size.height >= 1, one
            assert not any(one.region.overlaps(other.region) for other in shown[number + 1 :]), one
            for row in range(one.content_size.height):
                assert one.render_line(row).cell_length == one.content_size.width
        expected = {"header", "watch", "slots", "blockmap", "freequeue", "budget", "waiting", "eventlog", "timeline"}
        assert {p.id for p in shown} == expected | ({"finished"} if size[1] > 30 else set())
        text = all_drawn(app)
        for words in ("Batch slots  4 of 4", "DECODE", "all 4 slots taken", "next 20 21", "█4", "step 22", "LIVE"):
            assert words in text
        assert "smell of their own hive" in text
        assert WATCH in text

    drive(app, script, size)


def test_before_the_first_event_an_idle_engine_is_shown(shared_prefix) -> None:
    app = app_for(shared_prefix)

    async def script(pilot: Pilot) -> None:
        text = all_drawn(app)
        assert "step 0" in text and "nobody waits" in text and "Token budget  0 of 64" in text
        assert drawn(app, "slots")[0].split() == ["0", "·", "free"]

    drive(app, script)


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


def test_the_theme_changes_between_dark_and_light(shared_prefix) -> None:
    app = app_for(shared_prefix.run(20))

    def background() -> str:
        strip = panel(app, "blockmap").render_line(0)
        return next(segment.style.bgcolor.get_truecolor().hex for segment in strip if segment.style.bgcolor)

    async def script(pilot: Pilot) -> None:
        text = all_drawn(app)
        assert background() == DARK.background
        await pilot.press("t")
        await pilot.pause(FRAME)
        assert app.theme == LIGHT.name
        assert background() == LIGHT.background
        assert all_drawn(app) == text
        await pilot.press("t")
        await pilot.pause(FRAME)
        assert background() == DARK.background

    drive(app, script)


def test_no_cell_of_the_screen_keeps_the_ground_of_the_theme_before(shared_prefix) -> None:
    app = app_for(shared_prefix.run(20))

    def grounds() -> set[str]:
        """Also those of boxes, which lie bare where their panels leave room."""
        boxes = [one for kind in (PanelRow, PanelColumn) for one in app.screen.query(kind)]
        bare = [strip for one in boxes for strip in one.render_lines(one.size.region)]
        cells = [segment for strip in (*app.screen._compositor.render_strips(), *bare) for segment in strip]
        return {cell.style.bgcolor.get_truecolor().hex for cell in cells if cell.style and cell.style.bgcolor}

    async def script(pilot: Pilot) -> None:
        for theme, other in ((DARK, LIGHT), (LIGHT, DARK), (DARK, LIGHT)):
            assert theme.background in grounds() and other.background not in grounds()
            await pilot.press("t")
            await settle(pilot)

    drive(app, script)


@pytest.mark.parametrize("size", SIZES)
def test_help_explains_every_panel_on_the_screen(size: tuple[int, int], shared_prefix) -> None:
    app = app_for(shared_prefix.run(5))

    async def script(pilot: Pilot) -> None:
        shown = [p for p in app.screen.query(Panel) if p.display]
        await pilot.press("question_mark")
        await pilot.pause(FRAME)
        text = "\n".join(str(entry.render()) for entry in app.screen.query(".entry"))
        for one in shown:
            assert one.HELP_TITLE in text and one.HELP_TEXT in text
            assert one.HELP_TEXT.count(". ") == 1, "two sentences"
        assert ("Finished  " in text) == (size[1] > 30)
        await pilot.press("q")
        await pilot.pause(FRAME)
        assert not app.screen.query(".entry") and app.is_running

    drive(app, script, size)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_a_key_ends_the_app_at_any_time(key: str, shared_prefix) -> None:
    app = app_for(shared_prefix.run(5))

    async def script(pilot: Pilot) -> None:
        if key == "ctrl+c":
            await pilot.press("question_mark")
        await pilot.press(key)
        await pilot.pause(FRAME)
        assert app._exit

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


def test_on_another_screen_the_end_of_the_run_says_where_it_is_told(shared_prefix) -> None:
    app = app_for(shared_prefix.run(20))

    async def script(pilot: Pilot) -> None:
        await pilot.press("4")
        app.show_summary(["8 requests finished."])
        await pilot.pause(2 * FRAME)
        assert told(app) == ["The run is over: press 1 to read what came of it."]
        await pilot.press("1")
        await pilot.pause(2 * FRAME)
        assert "8 requests finished." in drawn(app, "summary")[0]

    drive(app, script)


def test_a_run_that_was_cut_short_still_shows_its_slots(shared_prefix) -> None:
    app = app_for(shared_prefix.run(20))

    async def script(pilot: Pilot) -> None:
        await pilot.press("space")
        app.show_summary(["The run was stopped."])
        await pilot.pause(FRAME)
        assert not panel(app, "summary").display, "a held picture is held to the end"
        await pilot.press("end")
        await pilot.pause(2 * FRAME)
        assert "The run was stopped." in drawn(app, "summary")[0]
        assert panel(app, "slots").display and "r0" in drawn(app, "slots")[0]

    drive(app, script)


def test_more_work_after_the_end_takes_the_summary_away_and_a_new_one_comes_after_it(shared_prefix) -> None:
    shared_prefix.run()
    before = len(shared_prefix.events)
    app = app_for(shared_prefix)

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
        await until(pilot, lambda: not panel(app, "summary").display and "more" in drawn(app, "slots")[0])
        middle = len(shared_prefix.events)
        shared_prefix.run()
        for event in shared_prefix.events[middle:]:
            put(app, event)
        app.show_summary(["9 requests finished."], shared_prefix.events[-1].step)
        await until(pilot, lambda: "FINISHED" in drawn(app, "header")[0])
        await until(pilot, lambda: panel(app, "summary").display and not panel(app, "slots").display)
        await until(pilot, lambda: "9 requests finished." in drawn(app, "summary")[0])

    drive(app, script)


def test_a_recording_that_lost_events_is_told_in_the_top_line_while_the_run_goes_on(shared_prefix, tmp_path) -> None:
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
        assert told(app) == [f"The recording is whole only up to step 8: {REASON}."]
        assert "LIVE" in drawn(app, "header")[0], "the engine itself goes on"

    drive(app, script)


def test_a_frame_repaints_only_the_rows_that_changed(shared_prefix) -> None:
    app = app_for(shared_prefix.run(20))
    painted: list[tuple[str, int]] = []

    async def script(pilot: Pilot) -> None:
        for one in app.screen.query(Panel):
            # Count what is painted anew; a row that did not change comes from the panel's cache.
            original = one._paint
            one._paint = lambda *line, one=one, original=original: (painted.append(one.id), original(*line))[1]
        token = ev.TokenSampled(app.model.fold.last_seq + 1, 20, 0.9, "r2.0", 1, " more")
        put(app, token)
        await pilot.pause(FRAME)
        # The slot's two rows (its count and its text), and nothing anywhere else.
        assert sorted(painted) == ["slots", "slots", "timeline"]
        assert drawn(app, "slots")[5].rstrip().endswith(" more")

    drive(app, script)


def test_twenty_thousand_events_a_second_are_drained_without_loss(stage, ask) -> None:
    asks = [ask(f"r{i}", f"{i} " + "word " * (i % 50), f"answer {i} " * 40, arrives=i // 4) for i in range(200)]
    run = stage(asks, num_blocks=1024, max_num_seqs=32, max_num_batched_tokens=512).run()
    events = run.events
    assert len(events) > 20_000
    app = DashboardApp(InProcessSource(run.header, codec=MODELS), watch=WATCH)

    def produce() -> None:
        started = time.perf_counter()
        for number, event in enumerate(events):
            put(app, event)
            # In portions of a millisecond's worth, at 20,000 a second.
            if number % 20 == 19:
                time.sleep(max(0.0, started + number / 20_000 - time.perf_counter()))

    async def script(pilot: Pilot) -> None:
        thread = Thread(target=produce)
        thread.start()
        await asyncio.to_thread(thread.join)
        while app.model.fold.last_seq < events[-1].seq:
            await pilot.pause(0.1)
        assert app.model.fold.last_seq == events[-1].seq == len(events) - 1
        assert app.model.fold.state == run.engine.inspect()

    drive(app, script)


def test_an_answer_that_a_limit_cut_is_told_to_whom_asked(stage, ask) -> None:
    asks = [
        ask("user-1", "a question", "a long answer of many words", max_tokens=3),
        ask("user-2", "a question", "done"),
        ask("ada", "another", "a long answer of many words", max_tokens=3),
    ]
    run = stage(asks, max_num_seqs=1)
    app = DashboardApp(InProcessSource(run.header, codec=MODELS), control=FakeControl())

    async def script(pilot: Pilot) -> None:
        said = []
        for event in run.run().events:
            put(app, event)
            if isinstance(event, ev.StepEnd):
                await pilot.pause(FRAME)
                said += told(app)
        assert {sentence.partition(" ")[0] for sentence in said} == {"user-1"}
        assert "cut at 3 tokens" in said[0]

    drive(app, script)


def test_a_cut_answer_is_reported_once_however_often_the_picture_goes_back(stage, ask) -> None:
    run = stage([ask("user-1", "a question", "a long answer of many words", max_tokens=3)])
    app = DashboardApp(InProcessSource(run.header, codec=MODELS), control=FakeControl())

    async def script(pilot: Pilot) -> None:
        for event in run.run().events:
            put(app, event)
        await pilot.pause(FRAME)
        assert [sentence for sentence in told(app) if "cut at" in sentence], "reported as it ends"
        app.clear_notifications()
        await pilot.pause(FRAME)
        for _ in range(2):
            await pilot.press("home")
            await pilot.pause(FRAME)
            await pilot.press("end")
            await pilot.pause(FRAME)
        assert not [sentence for sentence in told(app) if "cut at" in sentence], "and not once more"

    drive(app, script)
