"""minivllm's scheduler decides what vLLM's decides, apart from the intended differences."""

from collections import Counter

import msgspec
import pytest
from support.vllm.random_traces import random_trace
from support.vllm.real_vllm import ROOT, VLLM_PYTHON, needs_vllm, run_with_vllm

from minivllm.cli import main
from minivllm.lab.twin.difference import differences
from minivllm.lab.twin.rules import RULES

SHIPPED = ROOT / "docs/assets/recordings/memory-pressure.jsonl"
OF_VLLM = ROOT / "docs/assets/recordings/vllm/in-step.jsonl"
DRAFTS = ROOT / "docs/assets/recordings/speculation.jsonl"


@needs_vllm
@pytest.mark.parametrize(
    ("first", "last"), [(0, 40), pytest.param(40, 540, marks=pytest.mark.slow)]
)
def test_random_traces_differ_from_vllm_only_as_intended(first, last, tmp_path):
    for seed in range(first, last):
        (tmp_path / f"{seed}.json").write_bytes(msgspec.json.encode(random_trace(seed)))
    traces = [tmp_path / f"{seed}.json" for seed in range(first, last)]
    run_with_vllm("-m", "minivllm.lab.twin.simulated", *traces)
    found = Counter()
    for seed in range(first, last):
        here = [*differences(random_trace(seed), tmp_path / f"{seed}.jsonl")]
        found.update(one.intended.id if one.intended else f"seed {seed}: {one}" for one in here)
        found["equal"] += not here
    intended = {"equal"} | {rule.id for rule in RULES}
    assert found.keys() <= intended and found["equal"] > (last - first) / 4
    assert last - first < 500 or found.keys() >= intended - {"goes-on"}, "0.33 goes on, too"


@needs_vllm
def test_the_command_says_that_a_shipped_run_is_equal_and_that_drafts_are_left_out(capsys):
    for recording, has_drafts in ((SHIPPED, False), (DRAFTS, True)):
        assert main(["twin", str(recording), "--vllm-python", VLLM_PYTHON]) == 0
        said = capsys.readouterr().out
        assert "Equal" in said and ("Intended (drafts, decision 110)" in said) == has_drafts


def test_a_recording_of_vllm_is_vllms_side_and_both_sides_can_be_opened(tmp_path, capsys):
    assert main(["twin", str(OF_VLLM), "--all", "-o", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "Intended (full-hit, decision 18)" in said
    assert "\nEqual, if minivllm follows vLLM's rules there: both schedulers decide" in said
    ours, theirs, picture = (str(tmp_path / name) for name in ("ours.jsonl", "vllm.jsonl", "a.svg"))
    assert main(["shot", ours, "--with", theirs, "--screen", "compare", "-o", picture]) == 0


def test_without_vllm_the_command_says_what_it_needs(capsys):
    assert main(["twin", str(SHIPPED), "--vllm-python", "/bin/false"]) == 1
    assert "--vllm-python" in capsys.readouterr().err
