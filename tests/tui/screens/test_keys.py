"""Every command of the table by its keys, in the real app: it does what its help says.

There is one check for each command (`key_checks_*`); a command without one fails a test. Checks of one group share an app,
which is brought back to the same moment before each: paused at the end of a step in the middle of a run with preemptions.
"""

import re
from pathlib import Path

import pytest
from support.tui.driven_app import (
    SCREENS,
    all_drawn,
    app_for,
    drive,
    panel,
    settle,
    show_screen,
    source_of,
    told,
    until,
)
from support.tui.fake_control import FakeControl
from support.tui.key_checks_engine import ENGINE
from support.tui.key_checks_look import LOOK
from support.tui.key_checks_time import TIME
from support.tui.key_seat import MIDDLE, Seat
from textual.pilot import Pilot
from textual.widgets._footer import FooterKey

from minivllm.tui.keys.commands import COMMANDS, Command
from minivllm.tui.screens.help import keys_now

CHECKS = {**TIME, **LOOK, **ENGINE}
_LEAVES = ("app.quit", "app.interrupt")
"""Each has an app of its own."""


def test_every_command_of_the_table_has_a_check() -> None:
    assert {command.id for command in COMMANDS} == set(CHECKS)


def run_checks(
    stage, commands: list[Command], subtests: pytest.Subtests, control: FakeControl | None = None
) -> list[str]:
    """The ids of the commands whose checks were run to their end."""
    checked = []

    async def script(pilot: Pilot) -> None:
        seat = Seat(pilot, stage, control)
        for command in commands:
            with subtests.test(command.id):
                await seat.sit_down()
                keys = command.keys.split(",")
                # The others of its keys are bound to the same command, which is all that there is to know of them.
                assert keys_now(seat.app.screen)[command.id] == keys
                await CHECKS[command.id](seat, keys[0])
                checked.append(command.id)

    drive(app_for(stage, control=control), script)
    return checked


@pytest.mark.parametrize("group", list(dict.fromkeys(command.group for command in COMMANDS)))
def test_every_key_does_what_its_help_says(
    group: str, memory_pressure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [one for one in COMMANDS if one.group == group and one.id not in _LEAVES]
    checked = run_checks(memory_pressure.run(), commands, subtests, FakeControl())
    assert checked == [one.id for one in commands]


def test_without_an_engine_its_keys_say_that_it_can_only_be_watched(memory_pressure, subtests) -> None:
    commands = [one for one in COMMANDS if one.group == "Engine"]
    assert run_checks(memory_pressure.run(), commands, subtests) == [one.id for one in commands]


@pytest.mark.parametrize("command_id", _LEAVES)
def test_a_key_that_leaves_ends_the_app(command_id: str, memory_pressure, subtests) -> None:
    commands = [one for one in COMMANDS if one.id == command_id]
    assert run_checks(memory_pressure.run(5), commands, subtests) == [command_id]


def test_engine_keys_that_need_somebody_chosen_say_so_and_what_was_refused_is_told(memory_pressure) -> None:
    control = FakeControl()
    app = app_for(memory_pressure.run(MIDDLE), control=control)

    async def script(pilot: Pilot) -> None:
        for key, sentence in (
            ("x", "Choose a running or waiting request first"),
            ("X", "Choose a running sequence first"),
        ):
            await pilot.press(key)
            await settle(pilot)
            assert [one.split(" (")[0] for one in told(app)] == [sentence]
        assert control.calls == []
        control.to_say = ["max_num_seqs can be at most 4 [b].", "There is no request eve."]
        await until(pilot, lambda: told(app) == ["max_num_seqs can be at most 4 [b]. There is no request eve."])
        await pilot.press("space", "n")
        await settle(pilot)
        assert app.context.transport.state == "live", "who takes a step wants to see it"

    drive(app, script)


def test_a_new_sentence_takes_the_place_of_the_one_before(memory_pressure) -> None:
    app = app_for(memory_pressure.run(MIDDLE))

    async def script(pilot: Pilot) -> None:
        for sentence in ("One.", "One.", "Two."):  # faster than they can be shown
            app.tell(sentence)
        await until(pilot, lambda: told(app) == ["Two."])
        await pilot.press("p", "p", "D", "m")
        await settle(pilot)
        assert len(told(app)) == 1 and told(app)[0].startswith("Mark m1 is at step ")

    drive(app, script)


def test_what_cannot_be_saved_is_one_sentence(memory_pressure, tmp_path: Path, monkeypatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    app = app_for(memory_pressure.run(5))

    async def script(pilot: Pilot) -> None:
        for key in ("ctrl+s", "E"):
            await pilot.press(key)
            await settle(pilot)
            (sentence,) = told(app)
            assert "cannot be written" in sentence and "\n" not in sentence

    drive(app, script)


def test_the_next_recording_is_opened_by_whoever_opened_this_one(memory_pressure) -> None:
    app = app_for(memory_pressure.run(5), has_next=True)

    async def script(pilot: Pilot) -> None:
        await pilot.press("ctrl+n")
        await settle(pilot)
        assert app._exit and app.return_value == "next"

    drive(app, script)


def test_a_key_that_can_do_nothing_here_says_so(memory_pressure) -> None:
    app = app_for(memory_pressure.run(5), state="paused")
    silent = {
        "left": "the beginning", "left_square_bracket": "the beginning", "left_curly_bracket": "the beginning",
        "down": "tab goes to one", "pageup": "tab goes to one", "z": "tab goes to one", "enter": "Nothing is chosen",
    }  # fmt: skip

    async def script(pilot: Pilot) -> None:
        async def says(keys: str, words: str) -> None:
            app.clear_notifications()
            await pilot.press(*keys.split())
            await until(pilot, lambda: told(app))
            assert words in told(app)[0], keys

        for key, words in silent.items():
            await says(key, words)
        await says("end right right", "nothing after this")
        await says("m apostrophe", "This is mark m1, and there is no other.")
        await says("minus minus minus", "slower than 0.25×")
        await says("plus plus plus plus plus plus plus", "faster than 16×")
        await show_screen(pilot, "requests")
        app.set_focus(panel(app, "request-detail"))
        await says("down", "nothing to choose in this panel now")

    drive(app, script)


def test_the_footer_fits_into_the_narrowest_usual_terminal(memory_pressure) -> None:
    app = app_for(memory_pressure.run(5))

    async def script(pilot: Pilot) -> None:
        for number in range(1, len(SCREENS) + 1):
            await pilot.press(str(number))
            await settle(pilot)
            keys = {key.description: key.region for key in app.screen.query(FooterKey)}
            assert list(keys)[-1] == "Quit" and 0 < keys["Quit"].right <= 80

    drive(app, script, (80, 24))


def test_a_persons_own_keys_work_and_stand_in_the_footer_and_the_help(memory_pressure) -> None:
    stage = memory_pressure.run()
    app = app_for(stage, keymap={"time.step": "ctrl+right,y", "look.why": "f9", "app.quit": "f10"})

    async def script(pilot: Pilot) -> None:
        seat = Seat(pilot, stage, None)
        await seat.sit_down()
        for key, position in (("y", 21), ("ctrl+right", 22), ("right", 22), ("l", 22), ("left", 21)):
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
        assert re.search(r"ctrl\+right y +Step +To the end of the next step", seat.window_text())
        assert re.search(r"f10 +Quit", seat.window_text())
        await seat.press("escape", "f10")
        assert app._exit

    drive(app, script)


def test_a_second_recording_stands_at_the_same_step_whatever_key_moves_the_first(memory_pressure) -> None:
    stage = memory_pressure.run()
    app = app_for(stage, other=source_of(stage))

    async def script(pilot: Pilot) -> None:
        await until(pilot, lambda: len(app.context.second.recording) == len(stage.events))
        await pilot.press("6")
        for key in ("home", "right", "right", "right_curly_bracket", "end", "left"):
            await pilot.press(key)
            await settle(pilot)
            assert app.context.second.view.fold.step == app.model.fold.step
        assert "r7" in all_drawn(app)

    drive(app, script)
