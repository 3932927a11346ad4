"""Keys in use: the user's own, keys without effect, names to go to, and leaving with a save."""

import re

import msgspec
import pytest
from support.tui.driven_app import all_drawn, app_for, drive, keys_of, panel, press, told, until
from support.tui.key_seat import MIDDLE, FakeControl, Seat
from textual.events import Key
from textual.pilot import Pilot

from minivllm.tui.draw.theme import DARK, LIGHT
from minivllm.tui.keys.commands import COMMANDS


def test_the_keys_of_the_dashboard_itself_work(memory_pressure, tmp_path, monkeypatch) -> None:
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
        await seat.press("ctrl+s", "E")
        log, trace, picture = sorted(tmp_path.iterdir())
        assert f"step&#160;{MIDDLE}" in picture.read_text(encoding="utf-8")
        assert len(log.read_bytes().splitlines()) == 1 + len(stage.events)
        assert len(msgspec.json.decode(trace.read_bytes())["traceEvents"]) > 400
        await seat.press("question_mark")
        help, focused = " ".join(seat.window_text().split()), panel(app, "slots")
        assert help.startswith(f"{focused.HELP_TITLE} {focused.HELP_TEXT}")
        here, rest = help.index("Useful here"), help.index(" Screens 1 Overview")
        assert all(command.help in help for command in COMMANDS)
        assert here < help.index("Pause or play") < help.index("Quit") < rest
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
        await seat.press("w", "f9", "q")  # of these, only f9 is a command
        assert len(told(app)) == 1 and not app._exit
        await seat.press("left")
        assert [note.title[:18] for note in app._notifications] == ["Why? As of step 20"]
        shown = keys_of(app)
        assert (shown["Why?"], shown["Quit"]) == ("f9", "f10")
        assert shown["Step"] in ("^→", "ctrl+right", "^right")
        await seat.press("question_mark")
        assert re.search(r"ctrl\+right y +Step +Go to the end of the next step", seat.window_text())
        assert re.search(r"f10 +Quit", seat.window_text())
        await seat.press("escape", "f10")
        assert app._exit

    drive(app, script)


@pytest.mark.parametrize(
    ("keys", "num_files", "said"),
    [("q enter", 1, ".jsonl"), ("q q", 0, ""), ("ctrl+c", 0, "not saved"), ("E q s", 1, "")],
)
def test_leaving_offers_to_save(keys, num_files, said, stage, ask, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = stage([ask("burst-1", "a question", "an answer"), ask("user-2", "another", "one")]).run()
    app = app_for(run, control=FakeControl())

    async def script(pilot: Pilot) -> None:
        await press(pilot, "q", "escape")
        assert not app._exit
        for key in keys.split():  # all at once: keys in one read of the terminal
            app.post_message(Key(key, None))
        await until(pilot, lambda: app._exit)
        lengths = [len(log.read_bytes().splitlines()) for log in tmp_path.glob("*.jsonl")]
        assert lengths == [1 + len(run.events)] * num_files
        assert said in str(app._exit_renderables) and bool(said) == bool(app._exit_renderables)

    drive(app, script)
