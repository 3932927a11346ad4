"""The real app on a live engine and on files, with their accidents.

For servers see tests/more/tui/test_http_source.py.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.engine.engine_fakes import FakeRunner, fake_engine
from support.tui import driven_app
from support.tui.driven_app import all_drawn, drawn, drive, panel, press, settle, told, until
from textual.pilot import Pilot

from minivllm.cli.serving.engine_control import EngineThreadControl
from minivllm.engine.engine_thread import EngineThread
from minivllm.events.fold import fold
from minivllm.events.recording.lines import encode_event, encode_header
from minivllm.tui.app import DashboardApp
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.sources.replay import ReplaySource
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
    engine = fake_engine(600, max_num_seqs=4, max_num_batched_tokens=2000)
    source = InProcessSource(engine.log_header(), codec=MODELS)
    engine.subscribe(source.put)
    with EngineThread(engine, seconds_per_step=0.002) as thread:
        yield DashboardApp(source, control=EngineThreadControl(thread)), thread


def test_keys_steer_a_real_engine_and_what_is_drawn_follows() -> None:
    with engine_in_a_thread() as (app, thread):
        state = app.context.control.state

        async def drawn_as_it_is(pilot: Pilot) -> None:
            """Wait until everything the engine has done is on the screen."""
            await settle(pilot)
            truth = thread.call(lambda engine: engine.inspect()).result(5)
            await until(pilot, lambda: app.model.fold.state == truth)
            assert f"step {app.model.fold.step}" in drawn(app, "header")[0]

        async def ask(pilot: Pilot, key: str, text: str) -> None:
            await pilot.press(key)
            await driven_app.answer(pilot, text)

        async def script(pilot: Pilot) -> None:
            await pilot.press("p")
            await until(pilot, lambda: "PAUSED at step" in drawn(app, "header")[0])
            await ask(pilot, "a", "Who was Ada?")
            await until(pilot, lambda: "user-1" in "".join(drawn(app, "waiting")))
            for says in ("before execute", "before sample", "PAUSED at step 1 "):
                await pilot.press("N")
                await until(pilot, lambda says=says: says in drawn(app, "header")[0])
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
            await ask(pilot, "o", "max_num_seqs 2")
            await until(pilot, lambda: panel(app, "slots").border_title == "Batch slots  4 of 2")
            await ask(pilot, "g", "user-1")
            await press(pilot, "end", "1")
            await pilot.press("x", "n")
            await until(pilot, lambda: app.model.fold.step == 5)
            await drawn_as_it_is(pilot)
            assert "user-1 " not in "".join(drawn(app, "slots"))
            assert "is aborted" in "".join(drawn(app, "eventlog"))
            await ask(pilot, "o", "max_num_seqs 4")
            await pilot.press("p")
            await until(pilot, lambda: app.model.fold.counters.finished_requests == 4)
            assert not state().paused and "LIVE" in drawn(app, "header")[0]
            await drawn_as_it_is(pilot)
            # The whole run can be replayed while the engine idles.
            await pilot.press("home")
            assert "step 0 of 101, engine is idle" in drawn(app, "header")[0]

        drive(app, script)


def test_an_engine_failure_is_reported_and_its_last_moment_stays(monkeypatch) -> None:
    monkeypatch.setattr(FakeRunner, "sample", lambda self, sequence: 1 / 0)
    with pytest.raises(ZeroDivisionError), engine_in_a_thread() as (app, _):

        async def script(pilot: Pilot) -> None:
            await pilot.press("A")
            await until(pilot, lambda: "engine failed: division by zero" in " ".join(told(app)))
            await until(pilot, lambda: "burst-1" in all_drawn(app))
            await press(pilot, "n", "a", "escape", "left")
            assert app.is_running

        drive(app, script)


# ---- files ----


@pytest.fixture
def log(memory_pressure, tmp_path: Path) -> Path:
    path, run = tmp_path / "run.jsonl", memory_pressure.run()
    path.write_bytes(encode_header(run.header) + b"".join(map(encode_event, run.events)))
    return path


def test_a_damaged_log_shows_the_part_before_and_says_so(log: Path, memory_pressure) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:201], b'{"ev":"\x1b[31m\n', *lines[202:]]))
    app = DashboardApp(ReplaySource(log, codec=MODELS))

    async def script(pilot: Pilot) -> None:
        await until(pilot, lambda: is_at(app, memory_pressure, 200))
        await until(pilot, lambda: told(app))
        (sentence,) = told(app)
        assert "run.jsonl is damaged at line 202: " in sentence and "\x1b" not in sentence
        assert "■ DAMAGED" in drawn(app, "header")[0]
        await pilot.press("left")
        assert "PAUSED" in drawn(app, "header")[0] and "r0" in all_drawn(app)
        app._frame()
        assert told(app) == [sentence], "once is enough"

    drive(app, script)
