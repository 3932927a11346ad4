"""The bench of the dashboard: real processes in a terminal, floods that are counted, rounds that are compared one by one."""

import json
from pathlib import Path

import pytest

from minivllm.cli import main
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.errors import BenchError
from minivllm.events.recording.recording import Recording
from minivllm.lab.bench.dashboard.attached import StepTimer, median_slowdown, slowdowns, time_rounds
from minivllm.lab.bench.dashboard.dashboard import first_paint, measure, seek_times
from minivllm.lab.bench.dashboard.load import GrowingLog, cpu_of_screens, flood, steps_of
from minivllm.lab.bench.dashboard.terminal import DashboardProcess
from minivllm.lab.common.traffic import record_traffic


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "log.jsonl"
    record_traffic(path, 6000, 2048, seed=0)
    return path


def test_the_first_picture_is_that_of_the_run_and_comes_without_torch(log: Path) -> None:
    paint = first_paint(log, num_paints=1)
    assert 0.05 < paint["median_seconds"] <= paint["max_seconds"] < 20
    assert paint["imports_torch"] is False


def test_an_import_is_seen_however_deep_it_is() -> None:
    with DashboardProcess("bench", "nothing-of-that-name", import_times=True) as process:
        process.wait_for("invalid choice")
        # The second one is imported by a module that the first one's package imports.
        assert {"minivllm.cli", "minivllm.core.scheduler"} <= process.imported_modules()


def test_a_dashboard_that_never_shows_it_is_an_error_with_what_it_said(tmp_path: Path) -> None:
    with (
        DashboardProcess("replay", str(tmp_path / "none.jsonl")) as process,
        pytest.raises(BenchError, match=r"never showed 'LIVE'.*none\.jsonl"),
    ):
        process.wait_for("LIVE")


def test_the_copy_grows_by_whole_steps_and_is_the_recording_at_every_moment(log: Path, tmp_path: Path) -> None:
    assert b"".join(steps_of(log)) == log.read_bytes()
    with GrowingLog(log, tmp_path / "copy.jsonl", steps_per_second=1000) as growing:
        growing._thread.join()
        assert growing.has_ended
    assert (tmp_path / "copy.jsonl").read_bytes() == log.read_bytes()


def test_a_recording_that_ends_too_soon_is_no_measurement(log: Path, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="more events"):
        cpu_of_screens(log, tmp_path / "copy.jsonl", seconds=0.1)


def test_a_flood_is_taken_in_whole_and_counted(log: Path) -> None:
    result = flood(log, num_events=3000, events_per_second=20_000)
    assert (result.num_put, result.num_lost) == (3000, 0)
    assert 0 < result.events_per_second < 20_000 and result.cpu > 0


def test_seeks_are_timed_with_the_models_of_the_dashboard(log: Path, tmp_path: Path) -> None:
    traffic = record_traffic(tmp_path / "log.jsonl", 6000, 2048, seed=0)
    times = seek_times(tmp_path / "log.jsonl", traffic, 5)
    assert 0 < times["median_ms"] <= times["p99_ms"] <= times["max_ms"]
    # A model holds a fold and more.
    assert times["keyframe_bytes"] > times["keyframe_bytes_of_folds"] > 0
    assert len(Recording(log)) == traffic.num_events


def test_each_way_of_watching_is_timed_in_each_round(tmp_path: Path) -> None:
    engine = LLMEngine.from_config(EngineConfig(model="tiny-random", dtype="float32"))
    rounds = time_rounds(StepTimer(engine, 8, tmp_path), num_rounds=1)
    assert len(rounds) == 1 and set(rounds[0]) == {"nobody", "in_process", "another_process"}
    assert all(seconds > 0 for seconds in rounds[0].values())
    assert not engine.has_unfinished_requests()
    # The dashboard in another process has read this file.
    assert [len(Recording(path)) > 8 * 16 for path in sorted(tmp_path.glob("*.jsonl"))] == [True]


def test_the_slowdown_is_the_middle_one_of_the_rounds_own_ratios() -> None:
    rounds = [{"nobody": nobody, "in_process": watched} for nobody, watched in ((1.0, 1.1), (2.0, 2.1), (1.0, 9.0))]
    assert slowdowns(rounds, "in_process") == pytest.approx([0.1, 0.05, 8.0])
    assert median_slowdown(rounds, "in_process") == pytest.approx(0.1)


def test_parts_can_be_measured_alone_and_the_result_says_where(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "dashboard", "--part", "seek", "--num-events", "3000", "--json"]) == 0
    captured = capfd.readouterr()
    result = json.loads(captured.out)
    assert "seek in 3," in captured.err and "first picture" not in captured.err
    assert set(result) >= {"bench", "seek", "events", "blocks", "versions", "machine"} and "paint" not in result


def test_several_parts_are_measured_on_one_recording() -> None:
    result = measure("tiny-random", "float32", 1, ["seek", "paint"], num_events=3000, num_seeks=3, num_paints=1)
    assert set(result["paint"]) == {"short", "long"} and result["seek"]["seeks"] == 3
