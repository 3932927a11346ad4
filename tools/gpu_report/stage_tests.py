"""Stage `tests`: runs the tests that need a GPU; one row per file, from pytest's JUnit XML.

Compiling kernels for each shape and dtype takes most of the time, so tests run in many processes if
pytest-xdist is installed. `tests/more/identity/test_gpu.py` runs alone, because it measures the device's
free memory.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from machine import ROOT
from stage_file import StageFailedError, StageFile

from minivllm.clock import MonotonicClock

PLACES = (
    (
        "tests/test_kernels_are_the_reference.py",
        "tests/kernels",
        "tests/runtime",
        "tests/more/kernels",
        "tests/more/runtime",
    ),
    ("tests/more/identity/test_gpu.py",),
)
"""Each entry is one run of pytest; an entry with several places runs in many processes."""
DRY_RUN_PLACES = (("tests/more/runtime/test_heap.py",),)
WORKERS = 8
SECONDS_AFTER_LIMIT = 30
"""After the stage's limit, the last run of pytest may continue for this many seconds."""
SHARE_IF_MORE_WAIT = 0.75
"""Share of the remaining time that a run of pytest gets if other runs follow."""


def run(report: StageFile, *, dry_run: bool) -> None:
    """Add a row for each file with GPU tests.

    Raises `StageFailedError` if a test failed or a run of pytest did not end.
    """
    marks = [] if dry_run else ["-m", "gpu"]
    done = {row.get("run") for row in report.rows.values()}
    pending = [
        places for places in (DRY_RUN_PLACES if dry_run else PLACES) if run_name(places) not in done
    ]
    for number, places in enumerate(pending, 1):
        report.check_time(f"before {run_name(places)}")
        is_last = number == len(pending)
        limit_s = (
            report.seconds_left + SECONDS_AFTER_LIMIT
            if is_last
            else report.seconds_left * SHARE_IF_MORE_WAIT
        )
        for row in _run(places, marks, limit_s):
            report.add(row | {"run": run_name(places)})
    bad = [row["key"] for row in report.rows.values() if "reason" in row or row["failures"]]
    if bad:
        raise StageFailedError(
            f"Tests failed or did not finish in {', '.join(bad)}: these rows list the failures."
        )


def run_name(places: tuple[str, ...]) -> str:
    """The value of `run` in the rows of a pytest run, which marks this run as done."""
    return " ".join(places)


def _run(places: tuple[str, ...], marks: list[str], limit_s: float) -> Iterator[dict[str, Any]]:
    workers = WORKERS if len(places) > 1 and find_spec("xdist") is not None else 0
    clock = MonotonicClock()
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder, "junit.xml")
        command = [sys.executable, "-m", "pytest", *marks, *places, f"--junitxml={xml}"]
        command += ["-n", str(workers)] if workers else []
        started = clock.now()
        try:
            done = subprocess.run(
                command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s
            )
        except subprocess.TimeoutExpired:
            yield {
                "key": places[0],
                "reason": f"It was stopped after {limit_s:.0f} s without finishing.",
            }
            return
        seconds = clock.now() - started
        files = read_junit(xml) if xml.exists() else {}
        if not files:
            reason = (
                f"pytest ran no test and ended with exit status {done.returncode}:"
                f" {_last_line(done)}"
            )
            yield {"key": places[0], "reason": reason}
        for file, counts in files.items():
            yield {
                "key": file,
                **counts,
                "workers": workers,
                "seconds_of_run": seconds,
                "runs": [counts["seconds"]],
            }


def read_junit(path: Path) -> dict[str, dict[str, Any]]:
    """Return for each file: counts, seconds, and name and first line of each failure."""
    files: dict[str, dict[str, Any]] = {}
    for case in ElementTree.parse(path).getroot().iterfind(".//testcase"):
        file = f"{case.get('classname', '').replace('.', '/')}.py"
        counts = files.setdefault(
            file, {"tests": 0, "passed": 0, "skipped": 0, "failures": [], "seconds": 0.0}
        )
        trouble = next((child for child in case if child.tag in ("failure", "error")), None)
        if trouble is not None:
            line = (trouble.get("message") or trouble.text or "").strip().partition("\n")[0]
            counts["failures"].append({"name": case.get("name"), "line": line})
        counts["tests"] += 1
        counts["seconds"] += float(case.get("time", 0.0))
        counts["skipped" if case.find("skipped") is not None else "passed"] += trouble is None
    return files


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip() or done.stdout.strip() or "it printed nothing").rpartition("\n")[2]
