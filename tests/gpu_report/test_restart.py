"""A second run of the stages `tests` and `tune` continues the first; the commit says whether it
may.
"""

from pathlib import Path

import pytest
from support.gpu_report_files import ENVIRONMENT


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
        return make(
            path, stage, ENVIRONMENT, dry_run=False, limit_s=100.0, clock=clock or HandClock()
        )

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
