"""Keys in use: the user's own, keys without effect, names to go to, and leaving with a save."""

import re
from pathlib import Path

import msgspec
import pytest
from support.tui.driven_app import all_drawn, app_for, drawn, drive, panel, settle, told, until
from support.tui.key_seat import MIDDLE, FakeControl, Seat
from textual.pilot import Pilot
from textual.widgets._footer import FooterKey

from minivllm.tui.draw.theme import DARK, LIGHT
from minivllm.tui.keys.commands import COMMANDS


def test_the_keys_of_the_dashboard_itself_do_what_their_help_says(
    memory_pressure, no_footer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stage = memory_pressure.run()
    app = app_for(stage)

    async def script(pilot: Pilot) -> None:
        seat = Seat(pilot, stage)
        await seat.sit_down()
        text = all_drawn(app)
        for theme in (LIGHT, DARK):
            await seat.press("t")
            assert app.theme == theme.name
            await until(pilot, lambda: all_drawn(app) == text)
        await seat.press("ctrl+s", "E", "ctrl+n")
        (picture,), (log,) = tmp_path.glob("*.svg"), tmp_path.glob("*.jsonl")
        (trace,) = tmp_path.glob("*.perfetto.json")
        assert f"step&#160;{MIDDLE}" in picture.read_text(encoding="utf-8")
        assert len(log.read_bytes().splitlines()) == 1 + len(stage.events)
        assert len(msgspec.json.decode(trace.read_bytes())["traceEvents"]) > 400
        assert "Only one recording is open" in told(app)[-1]
        await seat.press("question_mark")
        help, focused = " ".join(seat.window_text().split()), panel(app, "slots")
        assert help.startswith(f"{focused.HELP_TITLE} {focused.HELP_TEXT}")
        assert all(command.help in help for command in COMMANDS)
        await seat.press("question_mark", "ctrl+p")
        found = lambda: app.screen.query_one("CommandList").option_count  # noqa: E731
        await until(pilot, lambda: found() == len(COMMANDS))
        await pilot.press(*"scheduler")
        # The help text of the engine's step command also contains the word.
        await until(pilot, lambda: found() == 2)
        await pilot.press("enter")
        await until(pilot, lambda: app.current_mode == "scheduler")
        await seat.press("g", "ctrl+c")
        assert app._exit, "also from a window"

    drive(app, script)


def test_user_defined_keys_work_and_appear_in_footer_and_help(memory_pressure) -> None:
    stage = memory_pressure.run()
    app = app_for(stage, keymap={"time.step": "ctrl+right,y", "look.why": "f9", "app.quit": "f10"})

    async def script(pilot: Pilot) -> None:
        seat = Seat(pilot, stage)
        await seat.sit_down()
        for key, position in (("y", 21), ("ctrl+right", 22), ("right", 22), ("left", 21)):
            await seat.press(key)
            seat.stands_at(seat.end_of(position))
        await seat.press("w")
        assert told(app) == []
        await seat.press("f9", "q")
        assert len(told(app)) == 1 and not app._exit
        shown = {key.description: key.key_display for key in app.screen.query(FooterKey)}
        assert (shown["Why?"], shown["Quit"]) == ("f9", "f10")
        assert shown["Step"] in ("^→", "ctrl+right", "^right")
        await seat.press("question_mark")
        assert re.search(r"ctrl\+right y +Step +Go to the end of the next step", seat.window_text())
        assert re.search(r"f10 +Quit", seat.window_text())
        await seat.press("escape", "f10")
        assert app._exit

    drive(app, script)


def test_engine_keys_need_an_engine_and_some_need_a_selection(memory_pressure) -> None:
    control, stage = FakeControl(), memory_pressure.run(MIDDLE)

    async def watching(pilot: Pilot) -> None:
        for command in (one for one in COMMANDS if one.group == "Engine"):
            pilot.app.clear_notifications()
            await pilot.press(command.keys.split(",")[0])
            await until(pilot, lambda: told(pilot.app))
            assert "another process" in told(pilot.app)[0], command.id

    drive(app_for(stage), watching)

    async def steering(pilot: Pilot) -> None:
        for key in ("x", "X"):
            await pilot.press(key)
            await settle(pilot)
            assert "Select a running" in told(pilot.app)[-1]
        assert control.calls == []
        control.to_say = ["max_num_seqs can be at most 4 [b].", "There is no request eve."]
        sentence = " ".join(control.to_say)
        await until(pilot, lambda: told(pilot.app) == [sentence])
        await pilot.press("space", "n")
        await settle(pilot)
        assert pilot.app.context.transport.state == "live", "who takes a step wants to see it"

    drive(app_for(stage, control=control), steering)


def test_keys_typed_faster_than_the_app_reads_them_reach_the_field_after_tab(
    memory_pressure,
) -> None:
    control = FakeControl()

    async def script(pilot: Pilot) -> None:
        await pilot.press("a")
        for key in (*"Hi", "tab", "backspace", *"200", "enter"):
            pilot.app.simulate_key(key)  # unlike the pilot, this does not wait
        await until(pilot, lambda: control.calls)
        assert control.calls == [("add_request", "Hi", 200, 0.0, 1)]

    drive(app_for(memory_pressure.run(MIDDLE), control=control), script)


def test_a_key_without_effect_says_so_and_replaces_the_last_message(
    memory_pressure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    app = app_for(memory_pressure.run(5), state="paused", has_next=True)
    expected = {
        "left": "the beginning", "left_square_bracket": "the beginning",
        "left_curly_bracket": "the beginning", "down": "tab moves", "z": "tab moves",
        "enter": "Nothing is selected", "end right right": "nothing after",
        "m apostrophe": "the only mark",
        "minus minus minus": "0.25×", "plus plus plus plus plus plus plus": "16×",
        "ctrl+s": "cannot be written", "E": "cannot be written",
    }  # fmt: skip

    async def script(pilot: Pilot) -> None:
        for keys, words in expected.items():
            app.clear_notifications()
            await pilot.press(*keys.split())
            await until(pilot, lambda: told(app))
            assert words in told(app)[0] and "\n" not in told(app)[0], keys
        for sentence in ("One.", "One.", "Two."):  # faster than they can be shown
            app.tell(sentence)
        await until(pilot, lambda: told(app) == ["Two."])
        await pilot.press("ctrl+n")
        await settle(pilot)
        assert app._exit and app.return_value == "next"

    drive(app, script)


def test_escape_closes_messages_first_and_an_answer_stays_until_then(
    memory_pressure,
) -> None:
    app = app_for(memory_pressure.run(20))

    async def script(pilot: Pilot) -> None:
        await pilot.press("2", "tab", "down", "w")
        await settle(pilot)
        assert [(one.title[:4], one.timeout > 3600) for one in app._notifications] == [
            ("Why?", True)
        ]
        for _ in range(2):
            app.tell("Something passes.")
            await settle(pilot)
            assert sorted(one.timeout > 3600 for one in app._notifications) == [False, True]
        await pilot.press("escape")
        await settle(pilot)
        assert (len(app._notifications), app.current_mode) == (0, "blocks")
        await pilot.press("escape")
        await settle(pilot)
        assert app.current_mode == "overview"

    drive(app, script)


def test_the_time_bar_is_clicked_and_dragged(memory_pressure) -> None:
    app = app_for(memory_pressure.run())

    async def script(pilot: Pilot) -> None:
        transport, bar = app.context.transport, panel(app, "timeline")
        total = len(transport.recording)
        await pilot.click(bar, offset=(20, 0))
        await settle(pilot)
        assert transport.state == "paused" and 0.4 < transport.position / total < 0.6
        assert transport.position == transport.recording.step_end(app.model.fold.step)
        assert drawn(app, "timeline")[0].index("●") in (19, 20, 21)
        await pilot.mouse_down(bar, offset=(20, 0))
        before = transport.position
        for x in (15, 10, 5):
            await pilot.hover(bar, offset=(x, 0))
            await settle(pilot)
            assert transport.position < before
            before = transport.position
        await pilot.hover(bar, offset=(0, 0))
        await pilot.mouse_up(bar, offset=(0, 0))
        await settle(pilot)
        assert transport.position == 0
        await pilot.click(bar, offset=(40, 0))
        await settle(pilot)
        assert transport.state == "live"

    drive(app, script)


def test_go_to_accepts_names_and_steps_as_the_screen_shows_them(stage, ask) -> None:
    whole = "chatcmpl-d92da972a4f640628a0bdcda8ec01234-0a1b2c3d"
    run = stage([ask(whole, "a question", "an answer of some words", samples=2)]).run(3)
    app = app_for(run)

    async def script(pilot: Pilot) -> None:
        seat, transport = Seat(pilot, run), app.context.transport

        async def go_to(words: str) -> None:
            await seat.press("g")
            await seat.answer(words)

        for words in ("2", "step 2", "0,002"):
            transport.to_start()
            await go_to(words)
            assert transport.position == transport.recording.step_end(2), words
        # A sample has no arrival event: it is selected without moving.
        await go_to("d92da9.1")
        assert app.context.selection.seq_id == f"{whole}.1"
        assert transport.position == transport.recording.step_end(2)
        await go_to("d92da9")
        assert (app.context.selection.seq_id, app.current_mode) == (f"{whole}.0", "requests")
        assert not told(app)
        await go_to("9,999")
        assert "9,999" in told(app)[-1] and transport.position == len(run.events)

    drive(app, script)


@pytest.mark.parametrize(
    ("keys", "num_files", "said"),
    [("q enter", 1, ".jsonl"), ("q q", 0, ""), ("ctrl+c", 0, "not saved"), ("E q", 1, "")],
)
def test_leaving_offers_to_save_requests_of_the_user(
    keys: str, num_files: int, said: str, stage, ask, tmp_path: Path, monkeypatch, no_footer
) -> None:
    monkeypatch.chdir(tmp_path)
    run = stage([ask("burst-1", "a question", "an answer"), ask("user-2", "another", "one")]).run()
    app = app_for(run, control=FakeControl())

    async def script(pilot: Pilot) -> None:
        await pilot.press("q", "escape")
        await settle(pilot)
        assert not app._exit
        await pilot.press(*keys.split())
        await until(pilot, lambda: app._exit)
        files = list(tmp_path.glob("*.jsonl"))
        assert len(files) == num_files and said in str(app._exit_renderables)
        assert bool(said) == bool(app._exit_renderables)
        assert all(len(one.read_bytes().splitlines()) == 1 + len(run.events) for one in files)

    drive(app, script)
