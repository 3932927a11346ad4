"""The GPU report: a dry run of all stages, what it refuses, and how a profiled step is summed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.patience import SOON
from support.tool_modules import TOOLS, load_tool

from minivllm.events.recording.recording import Recording

STAGES = ("tests", "engine", "eager", "speculation", "profile", "demo", "kernels")


def report(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, TOOLS / "gpu_report", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SOON)


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_of_a_dry_run_is_done_and_has_rows(stage, tmp_path):
    done = report(stage, "--dry-run", "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    head, *rows, end = lines_of(tmp_path / f"{stage}.jsonl")
    assert (head["stage"], head["dry_run"], end["ended"]) == (stage, True, "done")
    assert rows
    if stage == "demo":
        (row,) = rows
        assert len(Recording(tmp_path / row["recording"])) == row["events"] and row["traced"]


def test_a_stage_that_is_ended_by_its_limit_says_so_in_its_file(tmp_path):
    done = report("engine", "--dry-run", "--limit", 0.1, "--out", tmp_path)
    assert done.returncode == 1 and "out of time" in done.stdout
    assert "out of time" in lines_of(tmp_path / "engine.jsonl")[-1]["ended"]


def test_figures_of_another_device_are_not_mixed_with_these(tmp_path):
    old = json.dumps({"stage": "engine", "began": "2026", "device": "another"}) + "\n"
    (tmp_path / "engine.jsonl").write_text(old)
    done = report("demo", "--dry-run", "--out", tmp_path)
    assert done.returncode == 2 and "device" in done.stderr
    assert [path.read_text() for path in tmp_path.iterdir()] == [old]


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine can make a report")
def test_a_machine_without_a_device_is_refused_in_one_sentence(tmp_path):
    done = report("--out", tmp_path / "report")
    assert done.returncode == 2 and "no CUDA device" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "report").exists()


def event(cat: str, name: str, start: float, duration: float) -> dict:
    return {"ph": "X", "cat": cat, "name": name, "ts": start, "dur": duration}


def test_overlapping_kernels_of_profiled_steps_count_once():
    tool = load_tool("gpu_report/profile_step.py")
    trace = [
        event("user_annotation", "step", 1000, 100 * tool.PROFILED),
        event("gpu_user_annotation", "step", 1000, 100),
        event("kernel", "gemm", 1030, 30),
        event("kernel", "gemm", 1050, 20),
        event("gpu_memcpy", "copy", 1080, 10),
        {"ph": "i", "name": "no interval", "ts": 1000},
    ]
    found = tool.summary(trace)
    assert found["profiled"] == pytest.approx(100e-6)
    assert found["busy"] * tool.PROFILED == pytest.approx(50e-6)  # 1030 to 1070, 1080 to 1090
    assert list(found["kernels"]) == ["gemm", "copy"]
