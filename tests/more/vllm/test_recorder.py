"""A real vLLM's scheduler and its recording say the same."""

from pathlib import Path

import pytest
from support.vllm.real_vllm import ROOT, needs_vllm, run_with_vllm

from minivllm.events.recording.recording import Recording
from minivllm.tui.state.model import MODELS

TRAFFIC = ROOT / "tests/support/vllm/random_traffic.py"


def check(folder: Path, first: int, last: int) -> None:
    results = run_with_vllm(TRAFFIC, folder, str(first), str(last))
    assert [result["difference"] for result in results] == [None] * (last - first)
    assert all(result["num_checks"] > 200 for result in results)
    assert {result["is_async"] for result in results} == {False, True}
    for result in results:
        recording = Recording(folder / f"{result['seed']}.jsonl", MODELS)
        assert recording.header.source.startswith("vLLM 0.")
        assert not recording.head.fold.sequences and recording.head.fold.counters.prompt_tokens


@needs_vllm
def test_the_fold_equals_vllms_own_state_after_every_call(tmp_path):
    check(tmp_path, 0, 10)


@needs_vllm
@pytest.mark.slow
def test_the_fold_equals_vllms_own_state_for_two_hundred_seeds(tmp_path):
    check(tmp_path, 0, 200)
