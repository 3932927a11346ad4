"""The real app on every source: a real engine in a thread, a replay, a growing file, a server; and
their accidents.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.engine.engine_fakes import FakeRunner, FakeTokenizer
from support.server.event_server import Answer, messages, meta, serving
from support.tui.driven_app import all_drawn, drawn, drive, panel, settle, show_screen, told, until
from textual.pilot import Pilot
from textual.widgets import Input

from minivllm.cli.serving.engine_control import EngineThreadControl
from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.engine.engine_thread import EngineThread
from minivllm.events.fold import fold
from minivllm.events.recording.lines import encode_event, encode_header
from minivllm.tui.app import DashboardApp
from minivllm.tui.sources import event_stream
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.sources.replay import ReplaySource
from minivllm.tui.sources.source import open_source
from minivllm.tui.sources.tail import TailSource
from minivllm.tui.state.model import MODELS


def is_at(app: DashboardApp, stage, count: int) -> bool:
    """Whether the picture is that of the first `count` events."""
    if app.context.transport.position != count:
        return False
    assert app.model.fold.state == fold(stage.header, stage.events[:count]).state
    return f"step {app.model.fold.step}" in drawn(app, "header")[0]


# ---- an engine in this process ----


@contextmanager
def engine_in_a_thread() -> Iterator[tuple[DashboardApp, EngineThread]]:
    config = EngineConfig(
        model="fake",
        block_size=4,
        max_num_seqs=4,
        max_num_batched_tokens=2000,
        check_invariants=True,
    )
    engine = LLMEngine(config, FakeRunner(600, 4), FakeTokenizer(), clock=VirtualClock())
    source = InProcessSource(engine.log_header(), codec=MODELS)
    engine.subscribe(source.put)
    with EngineThread(engine, seconds_per_step=0.002) as thread:
        yield DashboardApp(source, control=EngineThreadControl(thread)), thread


def test_keys_steer_a_real_engine_and_what_is_drawn_follows(no_footer) -> None:
    with engine_in_a_thread() as (app, thread):
        state = app.context.control.state

        async def drawn_as_it_is(pilot: Pilot) -> None:
            """Until all that the engine has done is on the screen."""
            await settle(pilot)
            truth = thread.call(lambda engine: engine.inspect()).result(5)
            await until(pilot, lambda: app.model.fold.state == truth)
            assert f"step {app.model.fold.step}" in drawn(app, "header")[0]

        async def ask(pilot: Pilot, key: str, text: str) -> None:
            await pilot.press(key)
            app.screen.query_one(Input).value = text
            await pilot.press("enter")
            await settle(pilot)

        async def script(pilot: Pilot) -> None:
            await pilot.press("p")
            await until(pilot, lambda: "ENGINE PAUSED before schedule" in drawn(app, "header")[0])
            await ask(pilot, "a", "Who was Ada?")
            await until(pilot, lambda: "user-1" in "".join(drawn(app, "waiting")))
            for phase in ("execute", "sample", "schedule"):
                await pilot.press("N")
                await until(pilot, lambda phase=phase: f"before {phase}" in drawn(app, "header")[0])
                await drawn_as_it_is(pilot)
                assert "user-1" in drawn(app, "slots")[0]
            assert app.model.fold.step == 1 and "PREFILL" in drawn(app, "slots")[0]
            await pilot.press("n", "n")
            await until(pilot, lambda: app.model.fold.step == 3)
            await drawn_as_it_is(pilot)
            assert "DECODE  +3" in drawn(app, "slots")[0]
            await pilot.press("A", "n")
            await until(pilot, lambda: "burst-5" in all_drawn(app) and app.model.fold.step == 4)
            await drawn_as_it_is(pilot)
            assert panel(app, "slots").border_title == "Batch slots  4 of 4"
            assert "all 4 slots taken" in "".join(drawn(app, "waiting"))
            await ask(pilot, "o", "max_num_seqs 9")
            await until(
                pilot,
                lambda: any("max_num_seqs can be at most 4" in sentence for sentence in told(app)),
            )
            await ask(pilot, "o", "max_num_seqs 2")
            await until(pilot, lambda: panel(app, "slots").border_title == "Batch slots  4 of 2")
            await ask(pilot, "g", "user-1")
            await pilot.press("end")
            await show_screen(pilot, "overview")
            await pilot.press("x", "n")
            await until(pilot, lambda: app.model.fold.step == 5)
            await drawn_as_it_is(pilot)
            assert (
                "user-1 " not in "".join(drawn(app, "slots")) and len(app.model.fold.running) == 3
            )
            assert "is aborted" in "".join(drawn(app, "eventlog"))
            await ask(pilot, "o", "max_num_seqs 4")
            await pilot.press("p")
            await until(pilot, lambda: app.model.fold.counters.finished_requests == 4)
            assert not state().paused and "LIVE" in drawn(app, "header")[0]
            await drawn_as_it_is(pilot)
            # All of it can be gone back over while the engine idles.
            await pilot.press("home")
            assert "step 0" in drawn(app, "header")[0] and "PAUSED" in drawn(app, "header")[0]

        drive(app, script)


def test_an_engine_that_fails_is_told_and_its_last_moment_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FakeRunner, "sample_tokens", lambda self, sequences, logits: 1 / 0)
    with pytest.raises(ZeroDivisionError), engine_in_a_thread() as (app, _):

        async def script(pilot: Pilot) -> None:
            await pilot.press("A")
            await until(
                pilot,
                lambda: any("The engine failed: division by zero" in one for one in told(app)),
            )
            assert "burst-1" in all_drawn(app)
            await pilot.press("n", "a", "escape", "left")
            await settle(pilot)
            assert app.is_running

        drive(app, script)


# ---- files ----


@pytest.fixture
def log(memory_pressure, tmp_path: Path) -> Path:
    memory_pressure.run()
    path = tmp_path / "run.jsonl"
    path.write_bytes(
        encode_header(memory_pressure.header) + b"".join(map(encode_event, memory_pressure.events))
    )
    return path


def test_a_replay_opens_at_its_first_event_and_plays_to_its_end(log: Path, memory_pressure) -> None:
    app, stage = (
        DashboardApp(ReplaySource(log, codec=MODELS), state="paused", first_step=7),
        memory_pressure,
    )

    async def script(pilot: Pilot) -> None:
        first = sum(one.step <= 7 for one in stage.events)
        await until(pilot, lambda: is_at(app, stage, first))
        await pilot.press("home")
        assert is_at(app, stage, 0)
        await pilot.press("g", "1", "9", "9", "enter", *["plus"] * 4, "space")
        await until(
            pilot,
            lambda: (
                is_at(app, stage, len(stage.events)) and app.context.transport.state == "paused"
            ),
        )
        await pilot.press("end")
        assert "■ END" in drawn(app, "header")[0]
        await pilot.press("space", "space")  # stand still there, and play again from the beginning
        await until(pilot, lambda: 0 < app.context.transport.position < len(stage.events))

    drive(app, script)


def test_a_file_that_grows_is_followed_and_rewound_meanwhile(
    tmp_path: Path, memory_pressure
) -> None:
    stage, path = memory_pressure.run(), tmp_path / "growing.jsonl"
    lines = [encode_header(stage.header), *map(encode_event, stage.events)]
    path.write_bytes(b"".join(lines[:101]) + lines[101][:7])
    app = DashboardApp(TailSource(path, codec=MODELS))

    async def script(pilot: Pilot) -> None:
        await until(pilot, lambda: is_at(app, stage, 100) and "LIVE" in drawn(app, "header")[0])
        await pilot.press("space")
        with path.open("ab") as file:
            file.write(lines[101][7:] + b"".join(lines[102:301]))
        await until(pilot, lambda: len(app.context.transport.recording) == 300)
        assert is_at(app, stage, 100) and "behind" in drawn(app, "header")[0]
        await pilot.press("left", "end")
        assert is_at(app, stage, 300)
        with path.open("ab") as file:
            file.write(b"".join(lines[301:]))
        await until(pilot, lambda: is_at(app, stage, len(stage.events)))
        path.unlink()
        await until(pilot, lambda: "■ ENDED" in drawn(app, "header")[0])
        await until(
            pilot,
            lambda: any(
                "was removed, so nothing more will come" in sentence for sentence in told(app)
            ),
        )
        await pilot.press("home")
        assert is_at(app, stage, 0)

    drive(app, script)


@pytest.mark.parametrize("follow", [False, True], ids=["replay", "attach"])
def test_a_damaged_log_shows_the_part_before_and_says_so(
    log: Path, memory_pressure, follow: bool
) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:201], b'{"ev":"\x1b[31m\n', *lines[202:]]))
    app = DashboardApp(open_source(str(log), follow=follow, codec=MODELS))

    async def script(pilot: Pilot) -> None:
        await until(pilot, lambda: is_at(app, memory_pressure, 200))
        await until(pilot, lambda: told(app))
        (sentence,) = told(app)
        assert "run.jsonl is damaged at line 202: " in sentence and "\x1b" not in sentence
        assert ("■ ENDED" if follow else "■ DAMAGED") in drawn(app, "header")[0]
        await pilot.press("left")
        assert "PAUSED" in drawn(app, "header")[0] and "r0" in all_drawn(app)
        await pilot.pause(0.2)
        assert told(app) == [sentence], "once is enough"

    drive(app, script)


def test_a_file_that_is_cut_short_while_it_is_replayed_is_one_sentence(
    log: Path, memory_pressure, capfd: pytest.CaptureFixture[str]
) -> None:
    app = DashboardApp(ReplaySource(log, codec=MODELS))

    async def script(pilot: Pilot) -> None:
        await until(pilot, lambda: is_at(app, memory_pressure, len(memory_pressure.events)))
        os.truncate(log, 500)
        app.simulate_key("left")  # and not by the pilot, who waits for an app that goes on
        while not app._exit:
            await asyncio.sleep(0.01)

    drive(app, script)
    assert app.return_code == 1
    # Wrapped at the width of the terminal.
    assert "".join(
        capfd.readouterr().err.split()
    ) == f"{log} was cut short while it was read.".replace(" ", "")


# ---- a server ----


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "FIRST_DELAY", 0.05)
    monkeypatch.setattr(event_stream, "LAST_DELAY", 0.05)


def test_a_server_that_goes_away_is_told_and_is_taken_up_again(
    quick_retries, memory_pressure
) -> None:
    stage = memory_pressure.run()
    header, events = stage.header, stage.events
    with serving(Answer(meta(header) + messages(events[:150]))) as server:
        app = DashboardApp(open_source(server.url, follow=True, codec=MODELS))

        async def script(pilot: Pilot) -> None:
            lost = "does not answer"
            await until(pilot, lambda: lost in drawn(app, "header")[0] and is_at(app, stage, 150))
            assert "/events does not answer (" in told(app)[0] and told(app)[0].endswith(
                "trying again in 0.05 s."
            )
            await pilot.press("left", "left", "right")  # what was had can be gone through meanwhile
            assert is_at(app, stage, sum(one.step < events[149].step for one in events))
            assert lost in drawn(app, "header")[0]
            await pilot.press("end")
            server.answers.append(Answer(meta(header) + messages(events[140:]), hold=True))
            await until(
                pilot, lambda: is_at(app, stage, len(events)) and "LIVE" in drawn(app, "header")[0]
            )
            assert len(told(app)) == 1, "once is enough"

        drive(app, script, (200, 30))
