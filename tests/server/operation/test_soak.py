"""`make soak`, ten seconds of it: the tool runs, finds nothing wrong with a healthy server, and
says what it measured.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import SOON

SOAK = Path(__file__).parents[3] / "tools" / "load" / "soak.py"


@pytest.mark.slow
def test_a_short_soak_leaves_nothing_behind(tmp_path: Path) -> None:
    report = tmp_path / "soak.json"
    command = [
        sys.executable,
        str(SOAK),
        "--model",
        "tiny-random",
        "--clients",
        "20",
        "--disconnects",
        "200",
    ]
    # So short a run on a shared machine says nothing about speed or slow growth: those bars are for
    # `make soak`.
    options = {
        "seconds": 2,
        "offline-seconds": 1,
        "min-ratio": 0,
        "max-growth-mib": 256,
        "json": report,
    }
    command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=SOON,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(report.read_text())
    assert result["requests"] >= 20
    assert result["errors"] == []
    assert all(result["checks"].values())
    assert result["after_the_disconnects"]["cache_usage"] == 0
