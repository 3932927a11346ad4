"""Every command by its key, in the real app: it does what its help says.

The checks of one group share an app. Each begins at a seat (`support.tui.key_seat`): paused at the
end of step `MIDDLE` of a run with preemptions, on the overview, nothing selected. For the keys of
the dashboard itself see tests/more/tui/test_keys_in_use.py, and for a race test_race.py beside it.
"""

import re
from collections.abc import Awaitable, Callable

import pytest
from support.tui.driven_app import app_for, drawn, drive, panel, put, told, until
from support.tui.driven_app import visible as panels_of
from support.tui.key_seat import MIDDLE, FakeControl, Seat
from support.tui.memory_recording import notable_numbers
from textual.pilot import Pilot
from textual.widgets import Input

from minivllm.events import types as ev
from minivllm.tui.answers.why import why
from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.selection import block, event, sequence, step
from minivllm.tui.keys.commands import COMMANDS
from minivllm.tui.screens.help import keys_now

Check = Callable[[Seat, str], Awaitable[None]]
CHECKS: dict[str, Check] = {}
"""By the command's id."""


@pytest.mark.parametrize("group", ["Time", "Look", "Engine"])
def test_every_key_does_what_its_help_says(group, memory_pressure, subtests) -> None:
    stage, control, checked = memory_pressure.run(), FakeControl(), []
    commands = [command for command in COMMANDS if command.group == group]

    async def script(pilot: Pilot) -> None:
        seat = Seat(pilot, stage, control)
        for command in commands:
            with subtests.test(command.id):
                await seat.sit_down()
                keys = command.keys.split(",")
                # Its other keys are bound to the same command, and that is all there is to test.
                assert keys_now(seat.app.screen)[command.id] == keys
                await CHECKS[command.id](seat, keys[0])
                checked.append(command.id)

    drive(app_for(stage, control=control), script)
    assert checked == [command.id for command in commands]


def of(*command_ids: str) -> Callable[[Check], Check]:
    def note(check: Check) -> Check:
        CHECKS.update(dict.fromkeys(command_ids, check))
        return check

    return note


# ---- time ----


def moves(place_after: Callable[[Seat, int], int], start: int = 0) -> Check:
    """Check that after one press and after two the picture is at `place_after(seat, presses)`.

    start: the position before, in events from the seat's own place
    """

    async def check(seat: Seat, key: str) -> None:
        await seat.stand_at(seat.end_of(MIDDLE) + start)
        for number in (1, 2):
            await seat.press(key)
            seat.stands_at(place_after(seat, number))

    return check


def notable_stop(seat: Seat, by: int) -> int:
    """The place just after a notable event: that many before or after here."""
    stops = {number + 1 for number in notable_numbers(seat.stage.events)} | {seat.end_of(MIDDLE)}
    return sorted(stops)[sorted(stops).index(seat.end_of(MIDDLE)) + by]


CHECKS["time.step_back"] = moves(lambda seat, n: seat.end_of(MIDDLE - n), start=-3)
CHECKS["time.step"] = moves(lambda seat, n: seat.end_of(MIDDLE + n - 1), start=-3)
CHECKS["time.event_back"] = moves(lambda seat, n: seat.end_of(MIDDLE) - n)
CHECKS["time.event"] = moves(lambda seat, n: seat.end_of(MIDDLE) + n)
CHECKS["time.notable_back"] = moves(lambda seat, n: notable_stop(seat, -n))
CHECKS["time.notable"] = moves(notable_stop)
CHECKS["time.start"] = moves(lambda seat, n: 0)


@of("time.live")
async def to_the_newest_event(seat: Seat, key: str) -> None:
    await seat.press(key)
    seat.stands_at(len(seat.steps), "live")
    await seat.press("right", "right")
    assert "nothing after" in told(seat.app)[-1]
    await seat.press("left")
    assert told(seat.app) == [], "the next key closes an answer"
    seat.app.report("News.")
    await seat.press("left")
    assert told(seat.app) == ["News."]


@of("time.toggle")
async def pause_or_play(seat: Seat, key: str) -> None:
    await seat.press(key)
    here = seat.end_of(MIDDLE)
    await until(seat.pilot, lambda: seat.transport.position > here)
    assert seat.transport.state == "playing" and "▶ 1×" in drawn(seat.app, "header")[0]
    await seat.press(key)
    held = seat.transport.position
    assert held in set(map(seat.end_of, range(MIDDLE, MIDDLE + 60)))
    seat.app._frame()
    seat.stands_at(held)
    seat.transport.to_live()
    await seat.press(key)
    seat.stands_at(len(seat.steps))


@of("time.faster", "time.slower")
async def changes_the_speed_only(seat: Seat, key: str) -> None:
    speed = 2.0 if key == "plus" else 0.5
    await seat.press(key)
    assert f"  {speed:g}×" in drawn(seat.app, "timeline")[0] and seat.transport.speed == speed
    assert seat.transport.state == "paused"


@of("time.goto")
async def to_a_step_a_request_or_a_block(seat: Seat, key: str) -> None:
    async def go_to(words: str) -> None:
        await seat.press(key)
        await seat.answer(words)

    for words, place in (("7", seat.end_of(7)), ("987654321", len(seat.steps))):
        await go_to(words)
        seat.stands_at(place)
    await go_to("r5")
    names = [getattr(event, "request_id", None) for event in seat.stage.events]
    arrival = names.index("r5") + 1
    seat.stands_at(arrival)
    assert f"to where r5 arrives at step {seat.app.model.fold.step}: end" in told(seat.app)[-1]
    assert (seat.app.current_mode, seat.app.context.selection.seq_id) == ("requests", "r5.0")
    gone = next(event for event in seat.stage.events if isinstance(event, ev.RequestPreempted))
    seat.transport.to_step(gone.step + 1)
    await go_to(gone.seq_id.removesuffix(".0"))
    seat.stands_at(seat.end_of(gone.step))
    assert f"is preempted at step {gone.step}: end" in told(seat.app)[-1]
    await go_to("b9")
    assert (seat.app.current_mode, seat.app.context.selection.block_id) == ("blocks", 9)
    for nonsense in ("b24", "[bold]x", "9" * 5000, "b²"):
        await go_to(nonsense)
        assert "There is no " in told(seat.app)[-1] and len(told(seat.app)[-1]) < 200
        seat.stands_at(seat.end_of(gone.step))


# ---- looking ----


@of("look.next_panel", "look.previous_panel")
async def focuses_each_panel_in_turn(seat: Seat, key: str) -> None:
    ids = [panel.id for panel in panels_of(seat.app) if panel.focusable]
    assert not {"header", "timeline", "summary"} & set(ids), "nothing to choose there"
    by = 1 if key == "tab" else -1
    for number in range(1, len(ids) + 1):
        await seat.press(key)
        assert seat.app.focused.id == ids[(ids.index("slots") + by * number) % len(ids)]


@of("look.down", "look.up", "look.page_down", "look.page_up")
async def moves_the_cursor(seat: Seat, key: str) -> None:
    by = {"down": 1, "up": -1, "pagedown": 12, "pageup": -12}[key]
    fold, selection = seat.app.model.fold, seat.app.context.selection
    last = len(fold.blocks) - 1
    seat.app.set_focus(panel(seat.app, "blockmap"))
    expected = 0 if by > 0 else last
    for _ in range(2):
        await seat.press(key)
        assert selection.last == block(expected)
        expected = min(max(expected + by, 0), last)
    seat.app.set_focus(panel(seat.app, "slots"))
    running = sorted(fold.running, key=lambda seq_id: fold.sequences[seq_id].slot)
    chosen = running[0 if by > 0 else -1]
    await seat.press(key)
    assert selection.last == sequence(chosen)
    lines = panel(seat.app, "slots")._lines
    lit = next(line for line in lines if any(span[1].endswith("!") for span in line if span[2:]))
    assert chosen.removesuffix(".0") in text_of(lit)


@of("look.open")
async def shows_what_is_chosen_on_its_own_screen(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert seat.app.current_mode == "overview", "nothing is chosen"
    for target, screen in (
        (block(3), "blocks"),
        (sequence(seat.running), "requests"),
        (step(MIDDLE - 2), "scheduler"),
        (event(40), "events"),
    ):
        await seat.choose(target)
        await seat.press(key)
        assert seat.app.current_mode == screen
    seat.stands_at(41)


@of("look.back")
async def goes_back_and_then_chooses_nothing(seat: Seat, key: str) -> None:
    await seat.choose(block(3))
    await seat.press("2", "3", "tab", "z")
    assert seat.app.screen.maximized is not None
    for screen in ("scheduler", "blocks", "overview"):
        await seat.press(key)
        assert seat.app.screen.maximized is None and seat.app.current_mode == screen
    assert seat.app.context.selection.last == block(3)
    await seat.press(key)
    assert seat.app.context.selection.last is None


@of("look.why")
async def says_why(seat: Seat, key: str) -> None:
    await seat.press("4", key)
    chosen = sequence(seat.app.model.fold.running[0])
    assert told(seat.app) == [why(seat.app.model, chosen)], "the one that the screen shows"
    await seat.press(key, "1", key)
    said = told(seat.app)
    for target in (sequence(seat.app.model.fold.waiting[0]), block(0), step(MIDDLE)):
        await seat.choose(target)
        await seat.press(key)
        assert told(seat.app) == [why(seat.app.model, target)]
        said += told(seat.app)
    # Without a selection, the explanation begins with the request that waits.
    assert said[0] == said[1] and len(set(said)) == 3
    await seat.press(key)
    assert told(seat.app) == [], "the same key closes its answer"
    # A screen with a row of its own: that one, whatever was selected elsewhere.
    await seat.choose(sequence(seat.app.model.fold.waiting[0]))
    for screen, row in (("2", block(0)), ("3", step(MIDDLE))):
        await seat.press(key, screen)
        assert told(seat.app) == [], "an answer stays with its screen"
        await seat.press(key)
        assert told(seat.app) == [why(seat.app.model, row)]
    seat.app.set_focus(panel(seat.app, "step-history"))
    await seat.press("up")
    assert told(seat.app) == [why(seat.app.model, step(MIDDLE - 1))], "the answer follows"
    await seat.press("5", key)
    for move in ("left_square_bracket", "up") * 3:
        await seat.press(move)
        here = seat.stage.events[seat.transport.position - 1]
        assert getattr(here, "seq_id", f"tep {here.step}").removesuffix(".0") in told(seat.app)[0]


@of("look.source")
async def shows_the_line_that_decided(seat: Seat, key: str) -> None:
    kinds = [type(event) for event in seat.stage.events]
    await seat.stand_at(kinds.index(ev.RequestPreempted) + 1)
    await seat.press(key)
    assert "_preempt" in str(seat.app.screen.query_one("#text").border_title)
    assert "RequestPreempted" in seat.window_text()
    await seat.press("escape")
    seat.app.set_focus(None)
    await seat.stand_at(0)
    await seat.press(key)
    assert "Select an event" in told(seat.app)[-1]


@of("look.filter")
async def shows_only_events_with_a_word(seat: Seat, key: str) -> None:
    def kinds() -> set[str]:
        rows = [row for row in drawn(seat.app, "events")[2:] if row.strip()]
        return {re.search(r"[a-z]+\.[a-z]+", row).group() for row in rows}

    await seat.press(key)
    await seat.answer("preempted")
    assert seat.app.current_mode == "events" and kinds() == {"request.preempted"}
    await seat.press(key, "escape")
    assert seat.app.context.event_filter == "preempted", "who only looked changes nothing"
    await seat.press(key)
    assert seat.app.screen.query_one(Input).value == "preempted"
    await seat.answer("!block")
    assert kinds() and not any("block" in kind for kind in kinds())
    await seat.press(key)
    await seat.answer("")
    assert any("block" in row for row in drawn(seat.app, "events"))


@of("look.word_back", "look.word", "look.confidence")
async def says_what_to_do_without_explanations(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert "explain" in told(seat.app)[-1] and seat.app.context.selection.position is None
    assert seat.app.context.shows_confidence == (key == "c")
    await seat.press(key)
    assert not seat.app.context.shows_confidence


@of("look.maximize")
async def gives_the_panel_the_whole_screen(seat: Seat, key: str) -> None:
    seat.app.set_focus(panel(seat.app, "blockmap"))
    before = panel(seat.app, "blockmap").size
    await seat.press(key)
    # Textual lays the screen out a moment after the key.
    await until(seat.pilot, lambda: panel(seat.app, "blockmap").size.height > before.height)
    assert panel(seat.app, "blockmap").size.width > 100
    await seat.press(key)
    await until(seat.pilot, lambda: panel(seat.app, "blockmap").size == before)
    # One that has a share of a row, and not a whole row.
    await seat.press("4")
    seat.app.set_focus(panel(seat.app, "request-detail"))
    await seat.press(key)
    assert panel(seat.app, "request-detail").region.width == seat.app.size.width


# ---- the engine in this process ----


def asks_of_the_engine(*expected: tuple, selects: bool = False) -> Check:
    """Check that the key makes these calls, for the running sequence if it is selected."""

    async def check(seat: Seat, key: str) -> None:
        running = seat.running
        if selects:
            await seat.press(key)
            assert seat.control.calls == [] and "Select a running" in told(seat.app)[-1]
            await seat.choose(sequence(running))
        await seat.press(key)
        names = {"REQUEST": running.removesuffix(".0"), "SEQUENCE": running}
        calls = [tuple(names.get(part, part) for part in call) for call in expected]
        assert seat.control.calls == calls
        assert bool(told(seat.app)) != selects, "an idle engine has no step to run"

    return check


CHECKS["engine.step"] = asks_of_the_engine(("step",))
CHECKS["engine.phase"] = asks_of_the_engine(("step_phase",))
CHECKS["engine.abort"] = asks_of_the_engine(("abort", "REQUEST"), selects=True)


@of("engine.xray", "engine.tokens")
async def says_how_to_get_a_running_sequence(seat: Seat, key: str) -> None:
    await seat.press("7", key)
    assert seat.control.calls == [] and "a asks the model" in told(seat.app)[-1]
    assert "engine.tokens" not in seat.app.screen.keybar.wanted()


@of("engine.pause")
async def pauses_the_engine_and_lets_it_go_on(seat: Seat, key: str) -> None:
    await seat.press(key, "end")
    await until(seat.pilot, lambda: "PAUSED at step" in drawn(seat.app, "header")[0])
    await seat.press(key)
    assert seat.control.calls == [("pause",), ("resume",)]
    await until(seat.pilot, lambda: "LIVE" in drawn(seat.app, "header")[0])


@of("engine.burst")
async def sends_four_requests_and_shows_the_newest_moment(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert seat.control.calls == [("add_burst",)]
    assert seat.transport.state == "live" and f"step {MIDDLE}." in told(seat.app)[-1]


@of("engine.add")
async def asks_the_model_something(seat: Seat, key: str) -> None:
    await seat.press(key)
    await seat.answer(" Who was Ada? [b] ")
    assert seat.control.calls == [("add_request", "Who was Ada? [b]", 64, 0.0, 1)]
    await seat.press(key)
    await seat.answer("   ")
    assert len(seat.control.calls) == 1
    # The next field is already selected, so typing replaces its value.
    await seat.press(key, *"Hi", "tab", *"200", "tab", *"0.5", "tab", "3", "enter")
    assert seat.control.calls[-1] == ("add_request", "Hi", 200, 0.5, 3)
    await seat.press(key, *"Hi", "tab", "delete", "enter")
    assert len(seat.control.calls) == 2 and "whole numbers" in seat.window_text()


@of("engine.option")
async def changes_an_option(seat: Seat, key: str) -> None:
    await seat.press(key)
    await seat.answer("max_num_seqs = 2")
    assert seat.control.calls == [("set_option", "max_num_seqs", 2)]
    for nonsense in ("max_num_seqs two", "7", "max_num_seqs ²", "max_num_seqs " + "9" * 5000):
        await seat.press(key)
        await seat.answer(nonsense)
        assert "max_num_seqs 2" in told(seat.app)[-1], "an example of what to write"
    assert len(seat.control.calls) == 1


@of("engine.mass")
async def records_attention_and_stops(seat: Seat, key: str) -> None:
    await seat.press(key, "down", key, "down")
    found = seat.app.model.fold.sequences.items()
    first = next(seq_id for seq_id, sequence in found if sequence.slot == 0)
    asked = "record_attention_mass"
    # While attention is recorded, its words follow the selection.
    assert [call for call in seat.control.calls if call[0] == asked] == [
        (asked, True, None, None, None), (asked, True, first, None, None), (asked, False)
    ]  # fmt: skip


@of("engine.layer", "engine.head")
async def goes_from_the_mean_through_each_layer_or_head_and_back(seat: Seat, key: str) -> None:
    remembered = seat.transport.recording.head.remembered
    await seat.press(key)
    assert seat.control.calls == [] and "M starts it" in told(seat.app)[-1]
    await seat.press("M")
    remembered.attention = ev.TokenAttention(1, 1, 0.0, seat.running, [1.0], None, None, 2, 2)
    await seat.press(key, key, key, "M")
    remembered.attention = None
    argument = 3 if key == "L" else 4
    recorded = [call[argument] for call in seat.control.calls if len(call) > 2]
    assert recorded == [None, 0, 1, None]


def test_x_and_w_take_a_block_s_owner_or_the_first_running_sequence(memory_pressure) -> None:
    control = FakeControl()
    app = app_for(memory_pressure.run(MIDDLE), control=control)

    async def script(pilot: Pilot) -> None:
        fold = app.model.fold
        first, last = fold.running[0], fold.running[-1]
        await pilot.press("X")
        assert "Press →" not in told(app)[-1]
        control.calls.append(("pause",))
        app.context.selection.clear()
        app.context.selection.choose(block(fold.sequences[last].block_table[-1]))
        await pilot.press("X")
        assert "Press →" in told(app)[-1], "nothing is traced before the next step"
        assert [call for call in control.calls if call[0] == "trace_kernel"] == [
            ("trace_kernel", first), ("trace_kernel", last)
        ]  # fmt: skip
        app.context.selection.clear()
        control.calls.clear()
        await pilot.press("W")
        assert app.current_mode == "choice", "the first W shows the explanations"
        await pilot.press("W", "W")
        explained = [call[2] for call in control.calls if call[0] == "explain_tokens"]
        assert explained == [False, True] and app.context.selection.seq_id == first
        assert app.screen.keybar.wanted()["engine.tokens"] == "Stop explaining"
        # On one that has ended, W goes to the first that runs, and does not stop that one.
        app.context.selection.choose(sequence("ended.0"))
        await pilot.press("W")
        explained = [call[2] for call in control.calls if call[0] == "explain_tokens"]
        assert explained[-1] is True and app.context.selection.seq_id == first
        # Nothing is explained of one that waits: opening the screen takes the first that runs.
        await pilot.press("1")
        app.context.selection.choose(sequence(fold.waiting[0]))
        await pilot.press("7")
        assert app.context.selection.seq_id == first

    drive(app, script)


def test_a_request_that_the_user_sends_becomes_the_selection(memory_pressure) -> None:
    control = FakeControl()
    stage = memory_pressure.run(MIDDLE)
    app = app_for(stage, control=control)

    async def script(pilot: Pilot) -> None:
        app.context.selection.choose(sequence(app.model.fold.running[0]))
        await pilot.press("a", *"Hi", "enter")
        seq, position = len(stage.events), len(app.model.fold.waiting)
        put(app, ev.RequestArrived(seq, MIDDLE, 0.0, "user-1", "user-1.0", position, [1, 2], 4))
        await until(pilot, lambda: app.context.selection.seq_id == "user-1.0")
        assert ("explain_tokens", "user-1.0", True) in control.calls
        put(app, ev.RequestAborted(seq + 1, MIDDLE, 0.0, "user-1.0"))
        await until(pilot, lambda: "user-1 has ended" in " ".join(told(app)))

    drive(app, script)


def test_one_key_pauses_the_picture_and_an_engine_that_waits_for_it(memory_pressure) -> None:
    control = FakeControl(pauses_with_picture=True)
    app = app_for(memory_pressure.run(MIDDLE), control=control)

    async def script(pilot: Pilot) -> None:
        transport = app.context.transport
        await pilot.press("space")
        assert control.calls == [("pause",)] and transport.state == "paused"
        await until(pilot, lambda: f"PAUSED at step {MIDDLE}" in drawn(app, "header")[0])
        await pilot.press("right")
        assert control.calls[1:] == [("step",)] and transport.state == "live"
        await pilot.press("left", "left", "right")
        assert control.calls[2:] == [("pause",)], "in the past, steps move only the picture"
        transport.play()
        assert app.dashboard_screen.keybar.wanted()["time.toggle"] == "Pause", "it plays the past"
        await pilot.press("end")
        assert control.calls[3:] == [("resume",)] and transport.state == "live"
        await pilot.press("p", "space")
        assert control.calls[4:] == [("pause",), ("resume",)] and transport.state == "live"
        await pilot.press("space", "left", "N")
        assert control.calls[6:] == [("pause",)] and "newest" in told(app)[-1] and transport.at_end
        await pilot.press("w", "N")
        assert control.calls[-1] == ("step_phase",) and app.context.selection.last is not None
        put(app, *memory_pressure.run(1).events[len(transport.recording) :])
        await until(pilot, lambda: app.model.fold.step == MIDDLE + 1)
        for move in ("f5", "left", "left_curly_bracket", "g 9 enter", "N"):
            await pilot.press(*move.split())  # f5 moves nothing: a frame explains it
            now = f"step {app.model.fold.step} "
            await until(pilot, lambda now=now: now in next(iter(app._notifications)).title)
            assert told(app)[0] == why(app.model, None)
        await pilot.press("end")
        app.show_summary(["It is over."])
        await until(pilot, lambda: "FINISHED" in drawn(app, "header")[0])
        control.calls.clear()
        await pilot.press("n", "N")
        assert control.calls == [] and "nothing" in told(app)[-1], "no pause that is not seen"
        control.pause()
        await until(pilot, lambda: "FINISHED, PAUSED" in drawn(app, "header")[0])
        await pilot.press("space")
        assert control.calls[-1] == ("resume",)

    drive(app, script)
