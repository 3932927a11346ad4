"""The bench of the dashboard: real processes in a terminal, floods that are counted, rounds that are compared one by one."""

import json
from pathlib import Path

import pytest

from minivllm.cli import main
from minivllm.lab.bench.dashboard.attached import median_slowdown, slowdowns
from minivllm.lab.bench.dashboard.dashboard import first_paint
from minivllm.lab.bench.dashboard.load import GrowingLog, flood, steps_of
from minivllm.lab.common.traffic import record_traffic


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bench") / "log.jsonl"
    record_traffic(path, 6000, 2048, seed=0)
    return path


@pytest.mark.slow
def test_the_first_picture_is_that_of_the_run_and_comes_without_torch(log: Path) -> None:
    paint = first_paint(log, num_paints=1)
    assert 0.05 < paint["median_seconds"] <= paint["max_seconds"] < 20
    assert paint["imports_torch"] is False


def test_the_copy_grows_by_whole_steps_and_is_the_recording_at_every_moment(log: Path, tmp_path: Path) -> None:
    assert b"".join(steps_of(log)) == log.read_bytes()
    with GrowingLog(log, tmp_path / "copy.jsonl", steps_per_second=1000) as growing:
        growing._thread.join()
        assert growing.has_ended
    assert (tmp_path / "copy.jsonl").read_bytes() == log.read_bytes()


def test_a_flood_is_taken_in_whole_and_counted(log: Path) -> None:
    result = flood(log, num_events=3000, events_per_second=20_000)
    assert (result.num_put, result.num_lost) == (3000, 0)
    assert 0 < result.events_per_second < 20_000 and result.cpu > 0


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
