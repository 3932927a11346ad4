"""The changes on the how-to pages apply to a copy of the source, and work as described."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.docs.doc_blocks import ROOT, blocks
from support.patience import SOON


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package as installed: with kernels, tui and lessons inside."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "minivllm", tmp_path / "minivllm", ignore=ignore)
    return tmp_path


def files_of_page(page: str, folder: Path) -> None:
    for block in blocks((ROOT / page).read_text()):
        if block.title is not None:
            (folder / block.title).write_text(block.text)


def run(folder: Path, *command: str) -> subprocess.CompletedProcess:
    env = os.environ | {"PYTHONPATH": str(folder), "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=SOON
    )


def test_the_model_of_the_page_fits_the_source(copy):
    files_of_page("docs/inside/add-a-model.md", copy)
    applied = run(copy, "git", "apply", "--check", "helium.diff")
    assert applied.returncode == 0, applied.stderr


def test_the_policy_of_the_page_works_in_the_engine(copy):
    files_of_page("docs/inside/add-a-policy.md", copy)
    options = "--headless --model tiny-random --scenario burst --record run.jsonl"
    command = [sys.executable, "-m", "minivllm", "demo", *options.split()]
    command += ["--scheduling-policy", "shortest-prompt"]
    assert run(copy, *command).returncode == 2
    applied = run(copy, "git", "apply", "shortest.diff")
    assert applied.returncode == 0, applied.stderr

    played = run(copy, *command)
    assert played.returncode == 0, played.stderr
    chosen_among = _prompts_at_each_admission(copy / "run.jsonl")
    assert all(chosen == min(waiting) for chosen, waiting in chosen_among)
    assert any(
        len(set(waiting)) > 1 and waiting[0] != chosen for chosen, waiting in chosen_among
    ), "fcfs would give the same order"


def _prompts_at_each_admission(recording: Path) -> list[tuple[int, list[int]]]:
    """Per admission: prompt lengths of the admitted request, and of the waiting ones by arrival."""
    waiting: dict[str, int] = {}
    found = []
    for event in map(json.loads, recording.read_text().splitlines()):
        if event["ev"] == "request.arrived":
            waiting[event["seq_id"]] = len(event["prompt_token_ids"])
        elif event["ev"] == "request.admitted":
            lengths = list(waiting.values())
            found.append((waiting.pop(event["seq_id"]), lengths))
    return found


@pytest.mark.slow
def test_the_model_of_the_page_gives_the_tokens_of_transformers(copy):
    files_of_page("docs/inside/add-a-model.md", copy)
    before = run(copy, sys.executable, "check_helium.py")
    refused = (
        "UnsupportedModelError: This model's architecture (HeliumForCausalLM) is not supported"
    )
    assert refused in before.stderr
    applied = run(copy, "git", "apply", "helium.diff")
    assert applied.returncode == 0, applied.stderr
    after = run(copy, sys.executable, "check_helium.py")
    said = after.stdout.splitlines()[-1:]
    assert said == ["4 prompts, the same tokens as transformers"], after.stderr
