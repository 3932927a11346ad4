"""`make overhead`, a second of it: server and offline engine take turns, and both are measured in every round."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import SOON

OVERHEAD = Path(__file__).parents[3] / "tools" / "load" / "overhead.py"


def test_the_two_take_turns_and_the_ratio_is_that_of_their_medians(tmp_path: Path) -> None:
    report = tmp_path / "overhead.json"
    command = [
        sys.executable,
        str(OVERHEAD),
        "--model",
        "tiny-random",
        "--streams",
        "4",
        "--tokens",
        "64",
        "--json",
        str(report),
    ]
    for bar, status in (("1000", 0), ("0", 1)):
        done = subprocess.run(
            [*command, "--rounds", "3", "--max-ratio", bar],
            capture_output=True,
            text=True,
            timeout=SOON,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == status, done.stdout + done.stderr
        result = json.loads(report.read_text())
        server, offline = (result["ms_per_token"][name] for name in ("server", "offline"))
        assert len(server) == len(offline) == 3
        assert min(server + offline) > 0
        assert result["ratio"] == sorted(server)[1] / sorted(offline)[1]


def test_streams_that_were_never_all_at_once_are_one_sentence() -> None:
    spec = importlib.util.spec_from_file_location("overhead", OVERHEAD)
    overhead = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(overhead)
    assert overhead.ms_per_token([[1.0, 2.0, 3.0], [1.5, 2.5, 3.5]]) == pytest.approx(1000.0)
    with pytest.raises(SystemExit, match="ask for more --tokens"):
        overhead.ms_per_token([[1.0, 2.0], [3.0, 4.0]])
