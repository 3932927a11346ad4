"""A second run of the stages `tests` and `tune` continues the first; the commit says whether it may."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.gpu_report_files import ENVIRONMENT

from minivllm.lab.bench.kernels import tuning


class HandClock:
    """Shows what it was set to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds


@pytest.fixture
def open_file(tool, tmp_path: Path):
    """Opens the file of a stage, each time as a new run does; its limit is 100 seconds."""

    def opened(stage: str, clock: HandClock | None = None):
        make = tool("stage_file").StageFile
        path = tmp_path / f"{stage}.json"
        return make(path, stage, ENVIRONMENT, dry_run=False, limit_s=100.0, clock=clock or HandClock())

    return opened


@pytest.fixture
def pytest_runs(tool, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """What stage `tests` has run, with the limit of each; the first run of all never ends."""
    calls: list[tuple[str, float]] = []

    def run(places: tuple[str, ...], marks: list[str], limit_s: float):
        calls.append((places[0], limit_s))
        if len(calls) == 1:
            yield {"key": places[0], "reason": "It had not ended."}
        else:
            yield {"key": f"{places[0]}/test_a.py", "failures": [], "runs": [1.0]}

    monkeypatch.setattr(tool("stage_tests"), "_run", run)
    monkeypatch.setattr(tool("stage_tests"), "PLACES", (("slow", "slower"), ("quick",)))
    return calls


def test_after_a_run_of_pytest_that_never_ends_the_next_has_time_left(tool, open_file, pytest_runs):
    with pytest.raises(tool("stage_file").StageFailedError, match="slow"):
        tool("stage_tests").run(open_file("tests"), dry_run=False)
    (first, its_limit), (second, _) = pytest_runs
    assert (first, second) == ("slow", "quick") and its_limit < 100


def test_a_restart_skips_the_runs_of_pytest_that_have_rows(tool, open_file, pytest_runs):
    with pytest.raises(tool("stage_file").StageFailedError):
        tool("stage_tests").run(open_file("tests"), dry_run=False)
    report = open_file("tests")
    tool("stage_tests").run(report, dry_run=False)
    assert [place for place, _ in pytest_runs] == ["slow", "quick", "slow"]
    assert {row["run"] for row in report.rows.values()} == {"slow slower", "quick"}
    tool("stage_tests").run(open_file("tests"), dry_run=False)
    assert len(pytest_runs) == 3


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    """Each candidate takes one second of this clock, and no kernel runs."""
    clock = HandClock()

    def seconds_of_runs(run: Any, device: Any, num_runs: int) -> list[float]:
        clock.seconds += 1
        return [clock.seconds] * num_runs

    class AnyKernel(dict):
        def __missing__(self, name: str) -> Any:
            return lambda: None

    monkeypatch.setattr(tuning, "make_batch", lambda case, device: None)
    monkeypatch.setattr(tuning, "make_runs", lambda case, batch: AnyKernel())
    monkeypatch.setattr(tuning, "check", lambda *arguments: None)
    monkeypatch.setattr(tuning, "seconds_of_runs", seconds_of_runs)
    return clock


def test_a_restart_measures_only_the_candidates_without_a_row(tool, open_file, timed, capsys):
    while True:
        try:
            tool("stage_kernels").run_tune(open_file("tune", timed), dry_run=False)
            break
        except tool("stage_file").OutOfTimeError:
            assert timed.seconds % 100 == 0  # as many as fit, and none twice
    report = open_file("tune")
    conclusions = [row for row in report.rows.values() if row["key"].endswith("to commit")]
    assert timed.seconds == len(report.rows) - len(conclusions)
    assert [row["table"] for row in conclusions] == [
        *["DECODE"] * 3, *["PREFILL"] * 3, *["UNIFIED"] * 3, *["UNIFIED_DECODE"] * 3, "MIN_TOKENS_PER_SPLIT"
    ]  # fmt: skip
    printed = capsys.readouterr().out
    assert all(row["entry"] in printed for row in conclusions)


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_the_commit_says_whether_files_differ_from_it_and_the_reports_own_do_not_count(tool, tmp_path):
    describe = tool("machine").describe_commit
    results = tmp_path / "report"
    git(tmp_path, "init", "-q")
    (tmp_path / "code.py").write_text("1")
    git(tmp_path, "add", "code.py")
    git(tmp_path, "commit", "-qm", "Begin")
    commit = git(tmp_path, "rev-parse", "HEAD").strip()
    results.mkdir()
    (results / "kernels.json").write_text(json.dumps({}))
    assert describe(tmp_path, results) == commit
    (tmp_path / "code.py").write_text("2")
    assert describe(tmp_path, results) == f"{commit}+changes"
    git(tmp_path, "checkout", "-q", "code.py")
    (tmp_path / "new.py").write_text("1")
    assert describe(tmp_path, results) == f"{commit}+changes"
