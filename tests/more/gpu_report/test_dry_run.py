"""A dry run of the whole GPU report, and the result of an interrupted one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.patience import SOON
from support.tool_modules import TOOLS

from minivllm.events.recording.recording import Recording

pytestmark = pytest.mark.slow
STAGES = ("tests", "kernels", "tune", "engine", "profile", "demo")


def read(folder: Path, stage: str) -> dict[str, Any]:
    return json.loads((folder / f"{stage}.json").read_text())


def test_every_stage_of_a_dry_run_is_done_and_has_rows(tmp_path):
    command = [sys.executable, TOOLS / "gpu_report", "--dry-run", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SOON)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in STAGES:
        stage = read(tmp_path, name)
        assert (stage["status"], stage["error"], stage["dry_run"]) == ("done", None, True)
        keys = [row["key"] for row in stage["rows"]]
        assert keys and len(keys) == len(set(keys))
    (row,) = read(tmp_path, "demo")["rows"]
    assert row["trace_problem"] is None and row["attention_mass_events"] > 0
    recording = Recording(tmp_path / "demo.jsonl")
    assert len(recording) == row["events"]


KILLED = """
import os, signal, sys
sys.path.insert(0, {folder!r})
import stage_kernels
def measure_rows(**options):
    yield {{"key": "a", "runs": [1.0]}}
    yield {{"key": "b", "runs": [2.0]}}
    os.kill(os.getpid(), signal.SIGKILL)
stage_kernels.measure_rows = measure_rows
import runpy
sys.argv = ["gpu_report", "kernels", "--dry-run", "--in-this-process", "--out", {out!r}]
runpy.run_path({folder!r}, run_name="__main__")
"""


def test_a_stage_that_is_killed_in_the_middle_leaves_its_rows_and_the_report_says_what_killed_it(
    tool, tmp_path, monkeypatch, capsys
):
    script = KILLED.format(folder=str(TOOLS / "gpu_report"), out=str(tmp_path))
    real = subprocess.Popen
    main = tool("__main__").main

    def start(command: list[str], **options: Any) -> subprocess.Popen:
        return (
            real([sys.executable, "-c", script], **options)
            if "--in-this-process" in command
            else real(command, **options)
        )

    monkeypatch.setattr(subprocess, "Popen", start)
    assert main(["kernels", "--dry-run", "--out", str(tmp_path)]) == 1
    stage = read(tmp_path, "kernels")
    assert [row["key"] for row in stage["rows"]] == ["a", "b"]
    assert stage["status"] == "failed" and "SIGKILL" in stage["error"]
    assert "kernels: failed, 2 rows" in capsys.readouterr().out
