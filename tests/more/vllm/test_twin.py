"""minivllm's scheduler decides what vLLM's decides, apart from the intended differences."""

from collections import Counter

import msgspec
import pytest
from support.vllm.random_traces import random_trace
from support.vllm.real_vllm import ROOT, VLLM_PYTHON, needs_vllm, run_with_vllm

from minivllm.cli import main
from minivllm.lab.twin.difference import differences
from minivllm.lab.twin.ours import run_ours

SHIPPED = ROOT / "docs/assets/recordings/memory-pressure.jsonl"
OF_VLLM = ROOT / "docs/assets/recordings/vllm/in-step.jsonl"
INTENDED = {"full-hit", "goes-on", "late-hashes"}


@needs_vllm
@pytest.mark.parametrize(
    ("first", "last"), [(0, 40), pytest.param(40, 540, marks=pytest.mark.slow)]
)
def test_random_traces_differ_from_vllm_only_as_intended(first, last, tmp_path):
    for seed in range(first, last):
        trace = random_trace(seed)
        (tmp_path / f"{seed}.json").write_bytes(msgspec.json.encode(trace))
        run_ours(trace, tmp_path / f"{seed}-ours.jsonl")
    traces = [tmp_path / f"{seed}.json" for seed in range(first, last)]
    run_with_vllm("-m", "minivllm.lab.twin.simulated", *traces)
    found = Counter()
    for seed in range(first, last):
        found_here = differences(tmp_path / f"{seed}-ours.jsonl", tmp_path / f"{seed}.jsonl")
        (first_one, *_) = [*found_here, None]
        known = first_one and first_one.intended
        found[known.id if known else f"seed {seed}: {first_one}" if first_one else "equal"] += 1
    assert found.keys() <= {"equal", *INTENDED} and found["equal"] > (last - first) * 0.7
    assert last - first < 500 or found.keys() == {"equal", *INTENDED}


@needs_vllm
def test_the_command_says_that_a_shipped_run_is_equal(capsys):
    assert main(["twin", str(SHIPPED), "--vllm-python", VLLM_PYTHON]) == 0
    assert "Equal" in capsys.readouterr().out


def test_a_recording_of_vllm_is_vllms_side_and_both_sides_can_be_opened(tmp_path, capsys):
    assert main(["twin", str(OF_VLLM), "-o", str(tmp_path)]) == 0
    assert "Intended (full-hit, decision 18)" in capsys.readouterr().out
    ours, theirs, picture = (str(tmp_path / name) for name in ("ours.jsonl", "vllm.jsonl", "a.svg"))
    assert main(["shot", ours, "--with", theirs, "--screen", "compare", "-o", picture]) == 0


def test_without_vllm_the_command_says_what_it_needs(capsys):
    assert main(["twin", str(SHIPPED), "--vllm-python", "/bin/false"]) == 1
    assert "--vllm-python" in capsys.readouterr().err
