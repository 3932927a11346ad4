"""Stage `tests`: the tests that need a GPU, one file after the other, each in a process of its own.

Kernels are compiled once for each shape and type, which takes most of the time; files of tests/kernels therefore use
eight workers where pytest-xdist is installed. A row is a file, read back from pytest's JUnit XML.
"""

import re
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from machine import ROOT
from stage_file import StageFailedError, StageFile

from minivllm.clock import MonotonicClock

PLACES = ("tests/kernels", "tests/runtime", "tests/test_gpu.py")
DRY_RUN_FILE = "tests/runtime/test_heap.py"
WORKERS = 8
SECONDS_AFTER_LIMIT = 30
"""How long a file that was begun before the limit may still run."""
NOTHING_COLLECTED = 5
"""pytest's exit status."""


def run(report: StageFile, *, dry_run: bool) -> None:
    """Add a row for each file that has GPU tests. Raises `StageFailedError` if a test failed."""
    marks = [] if dry_run else ["-m", "gpu"]
    for file in [DRY_RUN_FILE] if dry_run else _files_with_gpu_tests():
        if report.wants(file):
            report.add({"key": file, **_run_file(file, marks, report.seconds_left + SECONDS_AFTER_LIMIT)})
    bad = [row["key"] for row in report.rows.values() if "reason" in row or row["failures"]]
    if bad:
        raise StageFailedError(f"Tests failed in {', '.join(bad)}: see the failures in the rows of these files.")


def _files_with_gpu_tests() -> list[str]:
    # One -q is in pyproject.toml; with a second one pytest prints `file: number of tests`.
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "--collect-only", "-q", *PLACES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    files = re.findall(r"^(\S+\.py): \d+$", done.stdout, flags=re.MULTILINE)
    if done.returncode not in (0, NOTHING_COLLECTED) or not files:
        raise StageFailedError(f"pytest collects no GPU tests (exit status {done.returncode}): {_last_line(done)}")
    return files


def _run_file(file: str, marks: list[str], limit_s: float) -> dict[str, Any]:
    workers = WORKERS if file.startswith("tests/kernels/") and find_spec("xdist") is not None else 0
    clock = MonotonicClock()
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder, "junit.xml")
        command = [sys.executable, "-m", "pytest", *marks, file, f"--junitxml={xml}"]
        command += ["-n", str(workers)] if workers else []
        started = clock.now()
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s)
        except subprocess.TimeoutExpired:
            return {"reason": f"It had not ended {limit_s:.0f} s after it was begun, and was stopped."}
        seconds = clock.now() - started
        if not xml.exists():
            return {"reason": f"pytest ended with exit status {done.returncode}: {_last_line(done)}"}
        return {**read_junit(xml), "workers": workers, "seconds": seconds, "runs": [seconds]}


def read_junit(path: Path) -> dict[str, Any]:
    """Counts, and of each test that failed its name and the first line of what it said."""
    cases = ElementTree.parse(path).getroot().findall(".//testcase")
    failures = []
    for case in cases:
        trouble = next((child for child in case if child.tag in ("failure", "error")), None)
        if trouble is not None:
            line = (trouble.get("message") or trouble.text or "").strip().partition("\n")[0]
            failures.append({"name": f"{case.get('classname')}.{case.get('name')}", "line": line})
    skipped = sum(case.find("skipped") is not None for case in cases)
    return {
        "tests": len(cases),
        "passed": len(cases) - skipped - len(failures),
        "skipped": skipped,
        "failures": failures,
    }


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip() or done.stdout.strip() or "it printed nothing").rpartition("\n")[2]
