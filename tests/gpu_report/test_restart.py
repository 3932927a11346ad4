"""A second run of the stages `tests` and `tune` continues the first, on the same commit."""

from pathlib import Path

import pytest
from support.gpu_report_files import ENVIRONMENT, HandClock


@pytest.fixture
def pytest_runs(tool, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """Runs of stage `tests` with their limits; the very first run never ends."""
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


def test_after_a_run_that_never_ends_the_next_has_time_left_and_a_restart_skips_what_has_rows(
    tool, tmp_path: Path, pytest_runs
):
    def open_file():
        limits = {"dry_run": False, "limit_s": 100.0, "clock": HandClock()}
        make = tool("stage_file").StageFile
        return make(tmp_path / "tests.json", "tests", ENVIRONMENT, **limits)

    with pytest.raises(tool("stage_file").StageFailedError, match="slow"):
        tool("stage_tests").run(open_file(), dry_run=False)
    (first, its_limit), (second, _) = pytest_runs
    assert (first, second) == ("slow", "quick") and its_limit < 100
    report = open_file()
    tool("stage_tests").run(report, dry_run=False)
    assert [place for place, _ in pytest_runs] == ["slow", "quick", "slow"]
    assert {row["run"] for row in report.rows.values()} == {"slow slower", "quick"}
    tool("stage_tests").run(open_file(), dry_run=False)
    assert len(pytest_runs) == 3
