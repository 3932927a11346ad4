"""A stage's file: kept rows, the time limit, and results from pytest and the profiler."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.gpu_report_files import ENVIRONMENT, HandClock, stage, write_report


def open_file(tool, path: Path, clock: HandClock | None = None, **environment: Any):
    make = tool("stage_file").StageFile
    here = {**ENVIRONMENT, **environment}
    return make(path, "kernels", here, dry_run=False, limit_s=10.0, clock=clock or HandClock())


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    rows = [{"key": "a", "runs": [1.0]}, {"key": "b", "reason": "it broke"}]
    return write_report(tmp_path, stage("kernels", rows, status="out of time")) / "kernels.json"


def test_rows_of_the_same_device_versions_and_commit_are_kept_and_failed_ones_tried_again(
    tool, earlier
):
    """The file is complete after every row."""
    report = open_file(tool, earlier)
    assert not report.wants("a")
    assert report.wants("b") and report.wants("c")
    report.add({"key": "c", "runs": [3.0]})
    assert json.loads(earlier.read_text())["status"] == "running"
    report.end("done", None)
    written = json.loads(earlier.read_text())
    assert [row["key"] for row in written["rows"]] == ["a", "c"]
    assert written["seconds"] == 60.0 and written["began"] == "2026-01-02T03:04:05+00:00"


@pytest.mark.parametrize(
    "changed",
    [
        {"device": {**ENVIRONMENT["device"], "name": "Another"}},
        {"versions": {**ENVIRONMENT["versions"], "torch": "2.12"}},
        {"commit": "another"},
    ],
    ids=["device", "version", "commit"],
)
def test_rows_of_another_device_version_or_commit_are_measured_again(changed, tool, earlier):
    assert open_file(tool, earlier, **changed).wants("a")


def test_after_the_limit_no_new_row_begins_and_kept_rows_need_no_time(tool, earlier):
    clock = HandClock()
    report = open_file(tool, earlier, clock)
    clock.seconds = 10.0
    assert not report.wants("a")
    with pytest.raises(tool("stage_file").OutOfTimeError, match="limit of 10 s"):
        report.wants("b")


def event(cat: str, name: str, start: float, duration: float) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": start, "dur": duration}


STEP = [
    event("user_annotation", "step", 1000, 100),
    event("gpu_user_annotation", "step", 1000, 100),
    event("user_annotation", "schedule", 1000, 10),
    event("user_annotation", "model", 10 + 1000, 60),
    event("cuda_runtime", "cudaLaunchKernelExC", 1020, 10),
    event("cuda_driver", "cuLaunchKernelEx", 1022, 5),
    event("cuda_runtime", "cudaGraphLaunch", 1035, 5),
    event("user_annotation", "sample", 1070, 20),
    event("cuda_runtime", "cudaStreamSynchronize", 1075, 15),
    event("kernel", "gemm", 1030, 30),
    event("kernel", "gemm", 1050, 20),
    event("kernel", "norm", 1080, 10),
    event("kernel", "of another step", 5000, 10),
    {"ph": "i", "name": "no interval", "ts": 1000},
]


def test_overlapping_kernels_and_nested_launches_of_a_profiled_step_count_once(tool):
    found = tool("timeline").summarize_steps(STEP)
    assert found["profiled_runs"] == pytest.approx([100e-6])
    assert found["busy"] == pytest.approx([50e-6])  # 1030 to 1070, 1080 to 1090
    assert (found["launches"], found["kernels"]) == ([2], [3])
    assert [(kernel["name"], kernel["launches"]) for kernel in found["top_kernels"]] == [
        ("gemm", 2),
        ("norm", 1),
    ]
    assert found["top_kernels"][0]["seconds"] == pytest.approx(50e-6)
