"""A real vLLM's scheduler and its recording say the same. Needs a Python that has vLLM:

MINIVLLM_VLLM_PYTHON=/path/to/venv/bin/python make test-all
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from minivllm.events.recording.recording import Recording
from minivllm.tui.state.model import MODELS

ROOT = Path(__file__).resolve().parents[3]
TRAFFIC = ROOT / "tests/support/vllm/random_traffic.py"
VLLM_PYTHON = os.environ.get("MINIVLLM_VLLM_PYTHON", "")

needs_vllm = pytest.mark.skipif(not VLLM_PYTHON, reason="MINIVLLM_VLLM_PYTHON is not set")


def run_seeds(folder: Path, first: int, last: int) -> list[dict]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "VLLM_LOGGING_LEVEL": "ERROR"}
    command = [VLLM_PYTHON, TRAFFIC, folder, str(first), str(last)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]


def check(folder: Path, first: int, last: int) -> None:
    results = run_seeds(folder, first, last)
    assert [one["difference"] for one in results] == [None] * (last - first)
    assert all(one["num_checks"] > 200 for one in results)
    assert {one["is_async"] for one in results} == {False, True}
    for one in results:
        recording = Recording(folder / f"{one['seed']}.jsonl", MODELS)
        assert recording.header.source.startswith("vLLM 0.")
        assert not recording.head.fold.sequences and recording.head.fold.counters.prompt_tokens


@needs_vllm
def test_the_fold_equals_vllms_own_state_after_every_call(tmp_path):
    check(tmp_path, 0, 10)


@needs_vllm
@pytest.mark.slow
def test_the_fold_equals_vllms_own_state_for_two_hundred_seeds(tmp_path):
    check(tmp_path, 0, 200)
