"""Checks of the keys that move in time, mark a moment and compare two moments."""

from collections.abc import Callable

from minivllm.tui.answers.diff import difference
from minivllm.tui.screens.dialogs import TextScreen
from support.tui.driven_app import drawn, told, until
from support.tui.key_seat import CHECKS, MIDDLE, Check, Seat, of


def moves(place_after: Callable[[Seat, int], int], start: int = 0, presses: int = 2) -> Check:
    """Check that after each press the picture is at `place_after(seat, number of presses)`.

    start: the position before, in events from the seat's own place.
    """

    async def check(seat: Seat, key: str) -> None:
        await seat.stand_at(seat.end_of(MIDDLE) + start)
        for number in range(1, presses + 1):
            await seat.press(key)
            seat.stands_at(place_after(seat, number))

    return check


CHECKS["time.step_back"] = moves(lambda seat, n: seat.end_of(MIDDLE - n), start=-3)
CHECKS["time.step"] = moves(lambda seat, n: seat.end_of(MIDDLE + n - 1), start=-3)
CHECKS["time.event_back"] = moves(lambda seat, n: seat.end_of(MIDDLE) - n)
CHECKS["time.event"] = moves(lambda seat, n: seat.end_of(MIDDLE) + n)
CHECKS["time.notable_back"] = moves(lambda seat, n: seat.stops(before=True)[-n])
CHECKS["time.notable"] = moves(lambda seat, n: seat.stops()[n - 1])
CHECKS["time.start"] = moves(lambda seat, n: 0, presses=1)


@of("time.live")
async def to_the_newest_event(seat: Seat, key: str) -> None:
    await seat.press(key)
    seat.stands_at(len(seat.steps), "live")


@of("time.toggle")
async def pause_or_play(seat: Seat, key: str) -> None:
    await seat.press(key)
    here = seat.end_of(MIDDLE)
    await until(seat.pilot, lambda: seat.transport.position > here)
    assert seat.transport.state == "playing" and "▶ 1×" in drawn(seat.app, "header")[0]
    await seat.press(key)
    held = seat.transport.position
    assert held in {seat.end_of(number) for number in range(MIDDLE, MIDDLE + 60)}
    seat.app._frame()
    seat.stands_at(held)
    seat.transport.to_live()
    await seat.press(key)
    seat.stands_at(len(seat.steps))


def plays_at(speed: float) -> Check:
    async def check(seat: Seat, key: str) -> None:
        await seat.press(key)
        assert f"  {speed}×" in drawn(seat.app, "timeline")[0] and seat.transport.speed == speed
        assert seat.transport.state == "paused"

    return check


CHECKS["time.faster"] = plays_at(2)
CHECKS["time.slower"] = plays_at(0.5)


@of("time.goto")
async def to_a_step_a_request_or_a_block(seat: Seat, key: str) -> None:
    async def go_to(words: str) -> None:
        await seat.press(key)
        await seat.answer(words)

    await go_to("7")
    seat.stands_at(seat.end_of(7))
    await go_to("987654321")
    seat.stands_at(len(seat.steps))
    await go_to("r5")
    names = [getattr(one, "request_id", None) for one in seat.stage.events]
    arrival = names.index("r5") + 1
    seat.stands_at(arrival)
    assert seat.app.current_mode == "requests" and seat.app.context.selection.seq_id == "r5.0"
    assert "r5" in "\n".join(drawn(seat.app, "request-detail"))
    await go_to("b9")
    assert (seat.app.current_mode, seat.app.context.selection.block_id) == ("blocks", 9)
    assert drawn(seat.app, "blocks-inspector")[0].split()[:2] == ["block", "9"]
    for nonsense in ("b24", "[bold]x", "9" * 5000, "b²"):
        await go_to(nonsense)
        assert "There is no " in told(seat.app)[-1] and len(told(seat.app)[-1]) < 200
        seat.stands_at(arrival)
    await seat.press(key, "1", "escape")
    seat.stands_at(arrival)
    assert seat.app.current_mode == "blocks" and len(seat.app.screen_stack) == 1


@of("time.mark")
async def remembers_this_moment(seat: Seat, key: str) -> None:
    await seat.press(key, key)
    assert f"m1 is at step {MIDDLE}" in told(seat.app)[-1]
    assert "1 mark" in drawn(seat.app, "timeline")[0], "two at one moment are one"
    await seat.press("right", key)
    assert "2 marks" in drawn(seat.app, "timeline")[0]
    places = [mark.position for mark in seat.transport.marks]
    assert places == [seat.end_of(MIDDLE), seat.end_of(MIDDLE + 1)]


@of("time.previous_mark")
async def back_to_the_last_mark_before_here(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert "no mark yet" in told(seat.app)[-1]
    await seat.press("m", "right", "m", "right")
    for number in (MIDDLE + 1, MIDDLE, MIDDLE + 1):  # wraps around to the last mark
        await seat.press(key)
        seat.stands_at(seat.end_of(number))


@of("time.diff")
async def shows_what_changed_between_two_marks(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert "Set a mark first (m)" in told(seat.app)[-1]
    await seat.press("m", "right", "right", key)
    view = seat.transport.recording.view_at_event
    two = view(seat.end_of(MIDDLE)), view(seat.end_of(MIDDLE + 2))
    assert isinstance(seat.app.screen, TextScreen)
    assert seat.window_text().split() == " ".join(difference(*two)).split()
