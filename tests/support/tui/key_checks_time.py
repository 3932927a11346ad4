"""Checks of the keys that move in time: each does what its help says."""

from minivllm.tui.answers.diff import difference
from minivllm.tui.screens.dialogs import TextScreen
from support.tui.driven_app import drawn, told, until
from support.tui.key_seat import MIDDLE, Checks, Seat

TIME = Checks()


@TIME.of("time.toggle")
async def pause_or_play(seat: Seat, key: str) -> None:
    await seat.press(key)
    here = seat.end_of(MIDDLE)
    await until(seat.pilot, lambda: seat.transport.position > here)
    assert seat.transport.state == "playing" and "▶ 1×" in drawn(seat.app, "header")[0]
    await seat.press(key)
    held = seat.transport.position
    assert held in {seat.end_of(number) for number in range(MIDDLE, MIDDLE + 60)}
    await seat.pilot.pause(0.2)
    seat.stands_at(held)
    seat.transport.to_live()
    await seat.press(key)
    seat.stands_at(len(seat.steps))


@TIME.of("time.step_back")
async def to_the_end_of_the_step_before(seat: Seat, key: str) -> None:
    await seat.stand_at(seat.end_of(MIDDLE) - 3)
    for number in (MIDDLE - 1, MIDDLE - 2):
        await seat.press(key)
        seat.stands_at(seat.end_of(number))


@TIME.of("time.step")
async def to_the_end_of_the_next_step(seat: Seat, key: str) -> None:
    await seat.stand_at(seat.end_of(MIDDLE) - 3)
    for number in (MIDDLE, MIDDLE + 1):
        await seat.press(key)
        seat.stands_at(seat.end_of(number))


@TIME.of("time.event_back")
async def one_event_back(seat: Seat, key: str) -> None:
    await seat.press(key, key)
    seat.stands_at(seat.end_of(MIDDLE) - 2)


@TIME.of("time.event")
async def one_event_forward(seat: Seat, key: str) -> None:
    await seat.press(key, key)
    seat.stands_at(seat.end_of(MIDDLE) + 2)
    last = seat.stage.events[seat.end_of(MIDDLE) + 1]
    assert last.__struct_config__.tag in drawn(seat.app, "timeline")[0]


@TIME.of("time.notable_back")
async def to_the_notable_event_before(seat: Seat, key: str) -> None:
    stops = seat.stops()
    await seat.stand_at(stops[-1])
    for stop in stops[-2:-4:-1]:
        await seat.press(key)
        seat.stands_at(stop)


@TIME.of("time.notable")
async def to_the_next_notable_event(seat: Seat, key: str) -> None:
    here = seat.end_of(MIDDLE)
    for stop in [stop for stop in seat.stops() if stop > here][:2]:
        await seat.press(key)
        seat.stands_at(stop)


@TIME.of("time.start")
async def to_the_first_event(seat: Seat, key: str) -> None:
    await seat.press(key)
    seat.stands_at(0)


@TIME.of("time.live")
async def to_the_newest_event(seat: Seat, key: str) -> None:
    await seat.press(key)
    seat.stands_at(len(seat.steps), "live")


@TIME.of("time.faster")
async def plays_twice_as_fast(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert "  2×" in drawn(seat.app, "timeline")[0] and seat.transport.speed == 2
    assert seat.transport.state == "paused"


@TIME.of("time.slower")
async def plays_half_as_fast(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert "  0.5×" in drawn(seat.app, "timeline")[0] and seat.transport.speed == 0.5


@TIME.of("time.goto")
async def to_a_step_a_request_or_a_block(seat: Seat, key: str) -> None:
    await seat.press(key)
    await seat.answer("7")
    seat.stands_at(seat.end_of(7))
    await seat.press(key)
    await seat.answer("987654321")
    seat.stands_at(len(seat.steps))
    await seat.press(key)
    await seat.answer("r5")
    arrival = next(
        n for n, one in enumerate(seat.stage.events) if getattr(one, "request_id", None) == "r5"
    )
    assert seat.app.current_mode == "requests"
    seat.stands_at(arrival + 1)
    assert seat.app.context.selection.seq_id == "r5.0" and "r5" in "\n".join(
        drawn(seat.app, "request-detail")
    )
    await seat.press(key)
    await seat.answer("b9")
    assert (seat.app.current_mode, seat.app.context.selection.block_id) == ("blocks", 9)
    assert drawn(seat.app, "blocks-inspector")[0].split()[:2] == ["block", "9"]
    seat.stands_at(arrival + 1)
    for nonsense in ("b24", "[bold]x", "9" * 5000, "b²"):
        await seat.press(key)
        await seat.answer(nonsense)
        assert "There is no " in told(seat.app)[-1] and len(told(seat.app)[-1]) < 200
        seat.stands_at(arrival + 1)
    await seat.press(key, "1", "escape")
    seat.stands_at(arrival + 1)
    assert seat.app.current_mode == "blocks" and len(seat.app.screen_stack) == 1


@TIME.of("time.mark")
async def remembers_this_moment(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert f"m1 is at step {MIDDLE}" in told(seat.app)[-1]
    assert "1 mark" in drawn(seat.app, "timeline")[0]
    await seat.press("right", key)
    assert "2 marks" in drawn(seat.app, "timeline")[0]
    assert [mark.position for mark in seat.transport.marks] == [
        seat.end_of(MIDDLE),
        seat.end_of(MIDDLE + 1),
    ]


@TIME.of("time.previous_mark")
async def back_to_the_last_mark_before_here(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert "no mark yet" in told(seat.app)[-1]
    await seat.press("m", "right", "m", "right", key)
    seat.stands_at(seat.end_of(MIDDLE + 1))
    await seat.press(key)
    seat.stands_at(seat.end_of(MIDDLE))
    await seat.press(key)  # around: there is none before, so the last of all
    seat.stands_at(seat.end_of(MIDDLE + 1))


@TIME.of("time.diff")
async def shows_what_changed_between_two_marks(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert "Set a mark first (m)" in told(seat.app)[-1]
    await seat.press("m", "right", "right", key)
    two = [
        seat.transport.recording.view_at_event(seat.end_of(step)) for step in (MIDDLE, MIDDLE + 2)
    ]
    said = " ".join(seat.window_text().split())
    assert isinstance(seat.app.screen, TextScreen)
    assert said == " ".join("\n".join(difference(*two)).split()) and "2 steps" in said
    await seat.press("escape")
    assert len(seat.app.screen_stack) == 1
