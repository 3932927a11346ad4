"""A dry run of the whole GPU report, and the result of an interrupted one."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from support.gpu_report_files import ENVIRONMENT
from support.patience import SOON
from support.tool_modules import TOOLS

from minivllm.cli import main as minivllm

pytestmark = pytest.mark.slow
STAGES = ("tests", "kernels", "tune", "engine", "profile", "demo")
CAN_TUNE = find_spec("minivllm.lab.bench.kernels.tuning") is not None
COMMAND = (sys.executable, str(TOOLS / "gpu_report"), "--dry-run")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=SOON)


def read(folder: Path, stage: str) -> dict[str, Any]:
    return json.loads((folder / f"{stage}.json").read_text())


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    done = run("--out", str(out))
    assert done.returncode == (0 if CAN_TUNE else 1), done.stdout + done.stderr
    return out


def test_every_stage_is_done_and_records_machine_and_time(report):
    for name in STAGES:
        stage = read(report, name)
        assert stage["stage"] == name and stage["seconds"] > 0 and stage["began"].endswith("+00:00")
        assert stage["dry_run"] is True
        environment = stage["environment"]
        assert environment["versions"].keys() == ENVIRONMENT["versions"].keys()
        assert environment["device"] is None
        assert environment["machine"]["cores"] == os.cpu_count()
        if name == "tune" and not CAN_TUNE:
            assert stage["status"] == "failed" and "tuning.py does not exist" in stage["error"]
        else:
            assert (stage["status"], stage["error"]) == ("done", None) and stage["rows"]
        keys = [row["key"] for row in stage["rows"]]
        assert len(keys) == len(set(keys))
        for row in stage["rows"]:
            assert row["dry_run"] is True
            assert "reason" in row or all(seconds > 0 for seconds in row["runs"])


def test_the_recording_of_the_demo_opens_and_has_a_traced_kernel_and_attention_mass(report, capsys):
    (row,) = read(report, "demo")["rows"]
    assert (
        row["trace_problem"] is None
        and row["traced_programs"] > 0
        and row["attention_mass_events"] > 0
    )
    assert minivllm(["once", str(report / "demo.jsonl"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])
    lines = (report / "demo.jsonl").read_text().splitlines()
    assert len(lines) == row["events"] + 1  # and the header
    assert any('"ev":"kernel.traced"' in line for line in lines)


def test_a_second_run_measures_only_what_is_missing(report):
    path = report / "kernels.json"
    stage = json.loads(path.read_text())
    gone, *kept = stage["rows"]
    kept[0]["runs"] = [42.0]
    path.write_text(json.dumps({**stage, "rows": kept}))
    assert run("kernels", "--out", str(report)).returncode == 0
    rows = {row["key"]: row for row in read(report, "kernels")["rows"]}
    assert rows.pop(gone["key"])["runs"] != gone["runs"]
    assert [*rows.values()] == kept


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
