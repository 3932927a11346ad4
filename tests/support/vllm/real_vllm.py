"""Runs scripts with a Python that has vLLM:

MINIVLLM_VLLM_PYTHON=/path/to/venv/bin/python make test-all
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
VLLM_PYTHON = os.environ.get("MINIVLLM_VLLM_PYTHON", "")

needs_vllm = pytest.mark.skipif(not VLLM_PYTHON, reason="MINIVLLM_VLLM_PYTHON is not set")


def run_with_vllm(*words: str | Path, typed: str | None = None) -> list[dict]:
    """Return the objects that the script prints, one on a line."""
    printed = output_with_vllm(*words, typed=typed)
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def output_with_vllm(*words: str | Path, typed: str | None = None, **variables: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "VLLM_LOGGING_LEVEL": "ERROR"}
    environment |= {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", **variables}
    ended = subprocess.run(
        [VLLM_PYTHON, *words], env=environment, input=typed, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout
