"""The simulator's answer for a few requests, against the real engine on this machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_throughput_is_within_a_tenth_and_median_latencies_within_15_percent_of_the_engines():
    # Fit each round's own steps: on a shared machine, other steps had another speed.
    options = ["--requests", "40", "--rounds", "3", "--json"]
    command = [sys.executable, "tools/check_simulation.py", *options]
    check = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stderr
    ratio = json.loads(check.stdout.splitlines()[-1])["median_ratio"]["own steps"]
    assert 0.9 < ratio["output_throughput"] < 1.1, check.stdout
    assert all(0.85 < ratio[name] < 1.15 for name in ratio if name.startswith("p50")), check.stdout
