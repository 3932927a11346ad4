"""minivllm's scheduler decides what vLLM's decides, apart from the intended differences."""

import os
import subprocess
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from support.vllm.random_traces import random_trace

from minivllm.cli import main
from minivllm.lab.twin.difference import differences
from minivllm.lab.twin.ours import run_ours

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = ROOT / "docs/assets/recordings/memory-pressure.jsonl"
VLLM_PYTHON = os.environ.get("MINIVLLM_VLLM_PYTHON", "")
INTENDED = {"full-hit", "goes-on", "late-hashes"}

needs_vllm = pytest.mark.skipif(not VLLM_PYTHON, reason="MINIVLLM_VLLM_PYTHON is not set")


def first_differences(folder: Path, seeds: range) -> Counter:
    """How many traces have each first difference; in it, a step without a reason is a sentence."""
    for seed in seeds:
        trace = random_trace(seed)
        (folder / f"{seed}.json").write_bytes(msgspec.json.encode(trace))
        run_ours(trace, folder / f"{seed}-ours.jsonl")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "VLLM_LOGGING_LEVEL": "ERROR"}
    command = [VLLM_PYTHON, "-m", "minivllm.lab.twin.simulated"]
    command += [str(folder / f"{seed}.json") for seed in seeds]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = Counter()
    for seed in seeds:
        one = differences(folder / f"{seed}-ours.jsonl", folder / f"{seed}.jsonl")[:1]
        known = one and one[0].intended
        found[known.id if known else f"seed {seed}: {one[0]}" if one else "equal"] += 1
    return found


@needs_vllm
def test_random_traces_differ_from_vllm_only_as_intended(tmp_path):
    found = first_differences(tmp_path, range(40))
    assert found.keys() <= {"equal", *INTENDED} and found["equal"] > 20


@needs_vllm
@pytest.mark.slow
def test_five_hundred_random_traces_differ_from_vllm_only_as_intended(tmp_path):
    found = first_differences(tmp_path, range(500))
    assert found.keys() == {"equal", *INTENDED} and found["equal"] > 250


@needs_vllm
def test_the_command_says_that_a_shipped_run_is_equal(capsys):
    assert main(["twin", str(SHIPPED), "--vllm-python", VLLM_PYTHON]) == 0
    assert "Equal" in capsys.readouterr().out


def test_without_vllm_the_command_says_what_it_needs(capsys):
    assert main(["twin", str(SHIPPED), "--vllm-python", "/bin/false"]) == 1
    assert "--vllm-python" in capsys.readouterr().err
