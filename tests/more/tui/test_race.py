"""The race at one key: two real runs in child processes, shown side by side, and ended with care."""

import tempfile
from pathlib import Path

import pytest
from support.tui.driven_app import all_drawn, app_for, drawn, drive, press, settle, told, until
from textual.pilot import Pilot
from textual.widgets import Input

from minivllm.tui.answers.verdict import verdict
from minivllm.tui.control import Entry
from minivllm.tui.draw.digits import large
from minivllm.tui.time.follow import seconds_at


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary folders are made here, so a test can see that they are gone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


async def start(pilot: Pilot, *names: str) -> None:
    await press(pilot, "R")
    for field, name in zip(pilot.app.screen.query(Input), names, strict=False):
        field.value = name
    await pilot.press("enter")
    await until(pilot, lambda: pilot.app.context.race is not None)


async def wait_for_the_end(pilot: Pilot) -> None:
    await until(pilot, lambda: pilot.app.context.race.state != "running")
    await settle(pilot)


def test_r_races_two_configurations_and_esc_returns_to_the_run(shared_prefix, temporary) -> None:
    app = app_for(shared_prefix.run(), state="paused")
    own = app.context.transport

    async def script(pilot: Pilot) -> None:
        own.to_step(9)
        await start(pilot, "continuous+paged", "static+contiguous")
        await wait_for_the_end(pilot)
        assert app.current_mode == "compare" and app.context.same == "second"
        first, second = app.context.transport, app.context.second
        assert own not in (first, second)
        titles = [str(app.dashboard_screen.query_one(f"#side-{x}").border_title) for x in "ab"]
        assert titles == ["A (your B): static+contiguous", "B (your A): continuous+paged"]
        for step in (5, first.recording.last_step):
            first.to_step(step)
            app.draw()
            assert f"step {step}" in " ".join(drawn(app, "side-a"))
            await press(pilot, "S")
            assert app.context.same == "step"
            assert second.view.fold.step == min(step, second.recording.last_step)
            await press(pilot, "S")
        seconds = [round(seconds_at(player), 1) for player in (first, second)]
        assert f"A {seconds[0]} s, B {seconds[1]} s" in " ".join(drawn(app, "race"))
        ratio = large(f"×{seconds_at(first) / seconds_at(second):.2f}")
        assert [row[1:][: len(ratio[0])] for row in drawn(app, "race")[:3]] == ratio
        notes = " ".join(" ".join(drawn(app, "race")[3:]).split())
        assert notes == verdict(first.recording, second.recording)
        assert notes.startswith("B won: A kept ")
        await press(pilot, "w")
        assert told(app) == [notes]
        await press(pilot, "w", "escape")
        assert app.context.transport is own and own.view.fold.step == 9
        assert app.context.second is None and "step 9" in all_drawn(app)
        assert len(list(temporary.iterdir())) == 1

    drive(app, script)
    assert list(temporary.iterdir()) == []


def test_a_race_that_cannot_run_or_is_not_wanted_says_so(shared_prefix, temporary: Path) -> None:
    app = app_for(shared_prefix.run(30))

    async def says(pilot: Pilot, keys: str, sentence: str) -> None:
        app.clear_notifications()
        await pilot.press(*keys.split())
        await until(pilot, lambda: any(sentence in note for note in told(app)))

    async def script(pilot: Pilot) -> None:
        await says(pilot, "C", "No race is running")
        await says(pilot, "S", "This needs two recordings")
        await app.race_keys.start(Entry("static+buddy"))
        await wait_for_the_end(pilot)
        assert "unknown part 'buddy': use continuous" in told(app)[-1]
        await start(pilot, "static", "continuous")
        await says(pilot, "R", "A race is running")
        await press(pilot, "C")
        assert "The race was cancelled." in " ".join(drawn(app, "race"))
        await start(pilot)  # and quit while it runs
        assert app.context.race.state == "running"
        processes.append(app.context.race._process)

    processes: list = []
    drive(app, script)
    assert processes[0].poll() is not None
    assert list(temporary.iterdir()) == []
