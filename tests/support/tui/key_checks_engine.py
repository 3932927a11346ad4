"""Checks of the keys for the engine in this process, and for the dashboard itself: each does what
its help says.
"""

from pathlib import Path

import msgspec

from minivllm.tui.draw.selection import sequence
from minivllm.tui.draw.theme import DARK, LIGHT
from minivllm.tui.keys.commands import COMMANDS
from minivllm.tui.screens.help import HelpScreen
from support.tui.driven_app import all_drawn, drawn, panel, told, until
from support.tui.key_seat import MIDDLE, Check, Checks, Seat

ENGINE = Checks()


def asks_of_the_engine(
    *expected: tuple, prepare: str = "", answer: str | None = None, adds: bool = False
) -> Check:
    """Pressing the key makes these calls.

    `adds`: it brings the engine something to do, so the picture leaves the past and says so.
    """

    async def check(seat: Seat, key: str) -> None:
        running = seat.app.model.fold.running[0]
        if prepare == "running":
            await seat.choose(sequence(running))
        await seat.press(key)
        if answer is not None:
            await seat.answer(answer)
        names = {"REQUEST": running.removesuffix(".0"), "SEQUENCE": running}
        assert seat.control.calls == [
            tuple(names.get(part, part) for part in call) for call in expected
        ]
        assert not adds or (
            seat.transport.state == "live" and f"step {MIDDLE}." in told(seat.app)[-1]
        )

    return check


ENGINE["engine.step"] = asks_of_the_engine(("step",))
ENGINE["engine.phase"] = asks_of_the_engine(("step_phase",))
ENGINE["engine.burst"] = asks_of_the_engine(("add_burst",), adds=True)
ENGINE["engine.xray"] = asks_of_the_engine(("trace_kernel", "SEQUENCE"), prepare="running")
ENGINE["engine.abort"] = asks_of_the_engine(("abort", "REQUEST"), prepare="running")
_asks = asks_of_the_engine(
    ("add_request", "Who was Ada? [b]", 64, 0.0, 1), answer=" Who was Ada? [b] ", adds=True
)
_sets = asks_of_the_engine(("set_option", "max_num_seqs", 2), answer="max_num_seqs = 2")


@ENGINE.of("engine.pause")
async def pauses_the_engine_and_lets_it_go_on(seat: Seat, key: str) -> None:
    await seat.press(key, "end")
    await until(seat.pilot, lambda: "ENGINE PAUSED before schedule" in drawn(seat.app, "header")[0])
    await seat.press(key)
    assert seat.control.calls == [("pause",), ("resume",)]
    await until(seat.pilot, lambda: "LIVE" in drawn(seat.app, "header")[0])


@ENGINE.of("engine.add")
async def asks_the_model_something(seat: Seat, key: str) -> None:
    await _asks(seat, key)
    seat.app.clear_notifications()
    await seat.press(key)
    await seat.answer("   ")
    assert len(seat.control.calls) == 1
    # How it is to be answered: a tab away, and already chosen, so that what is typed takes its
    # place.
    await seat.press(key, *"Hi", "tab", *"200", "tab", *"0.5", "tab", "3", "enter")
    assert seat.control.calls[-1] == ("add_request", "Hi", 200, 0.5, 3)
    assert told(seat.app) == []  # the picture was live already
    await seat.press(key, *"Hi", "tab", "delete", "enter")
    assert len(seat.control.calls) == 2 and "whole numbers" in seat.window_text()
    await seat.press("escape")


@ENGINE.of("engine.option")
async def changes_an_option(seat: Seat, key: str) -> None:
    await _sets(seat, key)
    for nonsense in ("max_num_seqs two", "7", "max_num_seqs ²", "max_num_seqs " + "9" * 5000):
        await seat.press(key)
        await seat.answer(nonsense)
        assert "max_num_seqs 2" in told(seat.app)[-1], "an example of what to write"
    assert len(seat.control.calls) == 1


@ENGINE.of("engine.mass")
async def records_attention_and_stops(seat: Seat, key: str) -> None:
    await seat.press(key)
    await seat.press(key)
    assert seat.control.calls == [("record_attention_mass", True), ("record_attention_mass", False)]


# ---- the dashboard ----


@ENGINE.of("app.theme")
async def changes_between_dark_and_light(seat: Seat, key: str) -> None:
    text = all_drawn(seat.app)
    await seat.press(key)
    assert seat.app.theme == LIGHT.name and all_drawn(seat.app) == text
    await seat.press(key)
    assert seat.app.theme == DARK.name and all_drawn(seat.app) == text


@ENGINE.of("app.screenshot")
async def saves_the_screen_as_a_picture(seat: Seat, key: str) -> None:
    await seat.press(key)
    (path,) = Path.cwd().glob("*.svg")
    assert path.name in told(seat.app)[-1]
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<svg") and f"step&#160;{MIDDLE}" in text


@ENGINE.of("app.export")
async def saves_the_recording_and_a_trace(seat: Seat, key: str) -> None:
    await seat.press(key)
    (log,), (trace,) = Path.cwd().glob("*.jsonl"), Path.cwd().glob("*.perfetto.json")
    assert log.name in told(seat.app)[-1] and trace.name in told(seat.app)[-1]
    assert len(log.read_bytes().splitlines()) == 1 + len(seat.stage.events)
    assert len(msgspec.json.decode(trace.read_bytes())["traceEvents"]) > len(seat.stage.events) // 4


@ENGINE.of("app.next_recording")
async def says_that_there_is_no_next_recording(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert "no other recording" in told(seat.app)[-1]


@ENGINE.of("app.palette")
async def finds_a_command_and_runs_it(seat: Seat, key: str) -> None:
    await seat.press(key)
    await seat.pilot.press(*"scheduler")
    # A step of the engine has the word in its help.
    await until(seat.pilot, lambda: seat.app.screen.query_one("CommandList").option_count == 2)
    await seat.pilot.press("enter")
    await until(
        seat.pilot, lambda: seat.app.current_mode == "scheduler" and len(seat.app.screen_stack) == 1
    )
    await seat.press(key)
    await until(
        seat.pilot, lambda: seat.app.screen.query_one("CommandList").option_count == len(COMMANDS)
    )
    await seat.press("escape")


@ENGINE.of("app.help")
async def explains_the_focused_panel_and_all_keys(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert isinstance(seat.app.screen, HelpScreen)
    text = " ".join(seat.window_text().split())
    focused = panel(seat.app, "slots")
    assert text.startswith(f"{focused.HELP_TITLE} {focused.HELP_TEXT}")
    assert all(command.help in text for command in COMMANDS)
    await seat.press(key)
    assert len(seat.app.screen_stack) == 1


async def leaves(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert seat.app._exit


ENGINE["app.quit"] = leaves


@ENGINE.of("app.interrupt")
async def leaves_also_from_a_window(seat: Seat, key: str) -> None:
    await seat.press("g")
    await leaves(seat, key)
