"""The checks of the keys of a race, as in `key_checks`."""

from minivllm.tui.screens.dialogs import RaceScreen
from support.tui.driven_app import drawn, told, until
from support.tui.key_seat import Seat, of


@of("race.start")
async def races_two_configurations(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert isinstance(seat.app.screen, RaceScreen)
    await seat.answer("static+bogus")
    assert isinstance(seat.app.screen, RaceScreen)
    assert "has the unknown part 'bogus'" in seat.window_text()
    await seat.answer("sequential")
    await until(seat.pilot, lambda: seat.app.context.second is not None)
    assert seat.app.current_mode == "compare"
    assert "Same second" in drawn(seat.app, "race")[0]


@of("race.clock")
async def switches_the_clock_of_both_sides(seat: Seat, key: str) -> None:
    await seat.press("6")
    for clock in ("Same step", "Same second"):
        await seat.press(key)
        assert clock in drawn(seat.app, "race")[0]


@of("race.cancel")
async def cancels_the_runs(seat: Seat, key: str) -> None:
    await seat.press("R", "enter")
    await seat.press(key)
    race = seat.app.context.race
    assert (race.state, race.sentence) == ("failed", "The race was cancelled.")
    await seat.press(key)
    assert told(seat.app) == ["No race is running; R starts one."]
