"""The GPU report: a dry run of all stages, what it refuses, and how a profiled step is summed."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from support.patience import SOON
from support.tool_modules import TOOLS, load_tool

from minivllm.events.recording.recording import Recording

STAGES = "tests engine one_by_one static_32 continuous eager speculation profile demo kernels"


def command(*arguments: object) -> list[str]:
    return [sys.executable, *map(str, (TOOLS / "gpu_report", *arguments))]


def report(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=SOON)


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("stage", STAGES.split())
def test_a_stage_of_a_dry_run_is_done_and_has_rows(stage, tmp_path):
    done = report(stage, "--dry-run", "--limit", SOON, "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    head, *rows, end = lines_of(tmp_path / f"{stage}.jsonl")
    assert (head["stage"], head["dry_run"], end["ended"]) == (stage, True, "done")
    assert rows
    if stage == "demo":
        (row,) = rows
        assert len(Recording(tmp_path / row["recording"])) == row["events"] and row["traced"]


def test_each_stage_has_a_limit_of_six_minutes_at_most_and_all_fit_into_a_lent_quarter_hour():
    """A minute of the fifteen is left for the start of the machine."""
    found = re.findall(r"(\w+)\s+\((\d+)\s+s\)", report("--help").stdout)
    names, limits = zip(*found, strict=True)
    assert " ".join(names) == STAGES
    assert max(map(int, limits)) <= 360 and sum(map(int, limits)) <= 14 * 60


def test_a_stage_that_is_ended_by_its_limit_says_so_in_its_file(tmp_path):
    done = report("engine", "--dry-run", "--limit", 0.1, "--out", tmp_path)
    assert done.returncode == 1 and "out of time" in done.stdout
    assert "out of time" in lines_of(tmp_path / "engine.jsonl")[-1]["ended"]


def test_a_report_that_is_terminated_ends_its_stage_and_keeps_what_it_has(tmp_path):
    """Between its two rows the stage runs for seconds."""
    path, deadline = tmp_path / "speculation.jsonl", time.monotonic() + SOON
    arguments = ("speculation", "kernels", "--dry-run", "--out", tmp_path)
    with subprocess.Popen(command(*arguments)) as running:
        while not (path.exists() and len(lines_of(path)) > 1) and time.monotonic() < deadline:
            time.sleep(0.05)
        running.terminate()
    _, row, end = lines_of(path)
    assert (row["bench"], end["ended"], running.returncode) == ("speculation", "interrupted", 1)
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not [line for line in commands if bytes(tmp_path) in line]
    assert not (tmp_path / "kernels.jsonl").exists()


def test_figures_of_another_device_are_not_mixed_with_these(tmp_path):
    old = json.dumps({"stage": "engine", "began": "2026", "device": "another"}) + "\n"
    (tmp_path / "engine.jsonl").write_text(old)
    done = report("demo", "--dry-run", "--out", tmp_path)
    assert done.returncode == 2 and "device" in done.stderr
    assert report("demo", "--dry-run", "--out", tmp_path / "engine.jsonl").returncode == 2
    assert [path.read_text() for path in tmp_path.iterdir()] == [old]


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine can make a report")
def test_a_machine_without_a_device_is_refused_in_one_sentence(tmp_path):
    done = report("--out", tmp_path / "report")
    assert done.returncode == 2 and "no CUDA device" in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    ("changed", "version", "reason"),
    [
        ({}, "3.6.0", None), ({}, "3.5.1", "Triton 3.5.1 is installed, but minivllm needs"),
        ({"get_device_capability": (7, 5)}, "3.6.0", "use a newer GPU"),
        ({"mem_get_info": (3 << 30, 80 << 30)}, "3.6.0", "3.0 GiB of free memory"),
    ],
)  # fmt: skip
def test_old_and_full_devices_and_other_tritons_are_refused(changed, version, reason, monkeypatch):
    tool = load_tool("gpu_report/machine.py")
    device = {"is_available": True, "get_device_capability": (9, 0), "get_device_name": "a GPU"}
    for name, answer in (device | {"mem_get_info": (79 << 30, 80 << 30)} | changed).items():
        monkeypatch.setattr(torch.cuda, name, lambda answer=answer: answer)
    monkeypatch.setattr(tool, "import_module", lambda name: SimpleNamespace(__version__=version))
    told = tool.refusal()
    assert told is None if reason is None else reason in told and "\n" not in told


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
