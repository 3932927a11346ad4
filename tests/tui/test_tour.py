"""The tour: each stop begins at its moment, pauses the run, and ends with its own key."""

from support.tui.driven_app import app_for, drawn, drive, show_screen, until
from support.tui.key_seat import FakeControl
from textual.pilot import Pilot

from minivllm.tui.screens.help import keys_now
from minivllm.tui.tour import STOPS, Tour


def test_every_stop_pauses_the_run_and_its_key_lets_it_go_on(memory_pressure, no_footer) -> None:
    control = FakeControl(pauses_with_picture=True)
    app = app_for(memory_pressure.run(60), control=control)
    # This run shares no blocks, and a race needs its own process.
    tour = app.context.tour = Tour(tuple(STOPS[at] for at in (0, 2, 3, 5)))

    async def script(pilot: Pilot) -> None:
        for number, stop in enumerate(tour.stops, 1):
            await until(pilot, lambda number=number: tour.is_open and tour.number == number)
            await until(pilot, lambda stop=stop: stop.sentence[:20] in drawn(app, "narrator")[0])
            assert app.context.transport.state == "paused" and control.calls[-1] == ("pause",)
            keys = keys_now(app.dashboard_screen)[stop.command]
            before = app.current_mode
            await show_screen(pilot, "compare")  # where R leads before the last stop
            assert stop.sentence[:20] in drawn(app, "narrator")[0]
            await show_screen(pilot, before)
            await pilot.press("t")
            assert tour.is_open, "another key ends no stop"
            await pilot.press(keys[0])
            assert ("resume",) in control.calls[-2:]
            await pilot.press("escape")
        assert not tour.is_open

    drive(app, script)
