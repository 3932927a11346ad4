"""The tour: each stop begins at its moment, pauses the run, and ends with its own key."""

from types import SimpleNamespace

from support.tui.driven_app import app_for, drawn, drive, frame, press, show_screen, until
from support.tui.key_seat import FakeControl
from support.tui.memory_recording import transport_of
from textual.pilot import Pilot

from minivllm.tui.control import Entry
from minivllm.tui.draw.selection import block, sequence
from minivllm.tui.keys import race_keys
from minivllm.tui.race import RaceOutcome
from minivllm.tui.screens.help import keys_now
from minivllm.tui.tour import NEXT, STOPS, Tour


def test_every_stop_pauses_the_run_and_its_key_lets_it_go_on(memory_pressure) -> None:
    control = FakeControl(pauses_with_picture=True)
    app = app_for(memory_pressure.run(60), control=control)
    # This run shares no blocks, and a race needs its own process.
    tour = app.context.tour = Tour(tuple(STOPS[at] for at in (0, 2, 3, 5)))

    async def script(pilot: Pilot) -> None:
        for number, stop in enumerate(tour.stops, 1):
            await until(pilot, lambda number=number: tour.is_open and tour.number == number)
            await until(pilot, lambda stop=stop: stop.sentence[:20] in drawn(app, "narrator")[0])
            assert "to skip" in "".join(drawn(app, "narrator")), "80 columns have room"
            assert app.context.transport.state == "paused" and control.calls[-1] == ("pause",)
            await show_screen(pilot, "compare")  # where R leads before the last stop
            assert stop.sentence[:20] in drawn(app, "narrator")[0]
            await pilot.press("t", "left", "N")
            assert tour.is_open, "another key ends no stop"
            assert app.context.own.at_end and ("step_phase",) not in control.calls, "this is first"
            await pilot.press(keys_now(app.dashboard_screen)[stop.command][0])
            if stop.then:
                assert tour.is_answered and control.calls[-1] != ("resume",)
                assert "when you close the answer" in drawn(app, "narrator")[0]
                await pilot.press("escape")
            await until(pilot, lambda number=number: tour.number > number)
            assert ("resume",) in control.calls[-4:] or tour.is_over
        assert tour.is_over and NEXT in drawn(app, "narrator")[0]
        assert control.state().paused, "its last picture stays"

    drive(app, script, (80, 24))


def test_a_tour_reaches_its_next_stop_and_its_end_whatever_is_pressed(memory_pressure) -> None:
    app = app_for(memory_pressure.run(60), control=FakeControl(pauses_with_picture=True))
    tour = app.context.tour = Tour((*STOPS[:1] * 4, STOPS[4]))

    async def script(pilot: Pilot) -> None:
        for number, keys in enumerate(("space", "left end", "a h i enter", "A"), 1):
            await until(pilot, lambda number=number: tour.number == number and tour.is_open)
            await pilot.press(*keys.split())
            await until(pilot, lambda number=number: tour.number > number)
        await press(pilot, "left")
        assert "space goes on with the tour" in drawn(app, "narrator")[0]
        app.show_summary(["The run is over."])  # before the moment of the last stop
        await pilot.press("space")
        await until(pilot, lambda: NEXT in drawn(app, "narrator")[0])

    drive(app, script)


def test_a_tour_watches_what_it_selects_so_its_last_stop_has_a_choice(memory_pressure) -> None:
    control = FakeControl(pauses_with_picture=True)
    app = app_for(memory_pressure.run(60), control=control)
    tour = app.context.tour = Tour((STOPS[3], STOPS[5]))
    app.context.selection.choose(block(0))  # as an earlier stop did

    async def script(pilot: Pilot) -> None:
        await show_screen(pilot, "blocks")
        await until(pilot, lambda: tour.is_open)
        victim = app.context.selection.seq_id
        assert app.dashboard_screen.asked() == sequence(victim)
        assert ("explain_tokens", victim, True) in control.calls
        await pilot.press("w", "escape")
        await until(pilot, lambda: tour.number == 2 and tour.is_open)
        # Behind a race, in whose recording nothing runs any more.
        side = app_for(memory_pressure.run()).context.transport
        app.context.behind, app.context.transport = (app.context.transport, None), side
        side.play()
        assert app.dashboard_screen.keybar.wanted()["time.toggle"] == "Pause", "the race plays"
        await pilot.press("7")
        watched = app.context.selection.seq_id
        assert watched in app.context.own.recording.head.fold.running
        assert ("explain_tokens", watched, True) in control.calls

    drive(app, script)


def test_the_stop_of_the_race_stays_until_the_race_has_its_verdict(memory_pressure, monkeypatch):
    app = app_for(memory_pressure.run(85), control=FakeControl(pauses_with_picture=True))
    tour = app.context.tour = Tour((STOPS[4], STOPS[5]))
    race = SimpleNamespace(state="running", sides=None, part=0.5, sentence="")
    race.poll, race.close, race.names, race.asked = bool, bool, Entry(), Entry()
    race.results = [RaceOutcome(2.0, 0.5)] * 2
    monkeypatch.setattr(race_keys, "RaceRuns", lambda *_: race)

    async def script(pilot: Pilot) -> None:
        await until(pilot, lambda: tour.is_open)
        await pilot.press("R")
        assert "The race plays by itself" in drawn(app, "narrator")[0]
        await pilot.press("escape")
        await until(pilot, lambda: not tour.is_answered)
        await pilot.press("R", "enter")
        await until(pilot, lambda: app.context.race is race)
        await frame(app)
        assert tour.number == 1 and tour.is_answered
        race.state = "over"
        side = transport_of(memory_pressure.run(), 0)
        app.context.behind, app.context.transport = (app.context.transport, None), side
        await frame(app)
        assert tour.number == 1, "it plays"
        side.to_live()
        await until(pilot, lambda: tour.number == 2)

    drive(app, script)
