"""The throughput bench: strict turns, comparison of outputs, medians, and bad input."""

import json

import pytest
import torch

from minivllm.cli import main
from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.rounds import EngineRounds, measure_rounds
from minivllm.lab.bench.throughput.workloads import (
    WORKLOADS,
    BenchRequest,
    WorkloadSpec,
    make_requests,
)
from minivllm.lab.common.report import progress_bar

SMALL = WorkloadSpec("small", 3, prompt_len=(4, 20), output_len=(2, 5), shared_prefix_len=8)
QUICK = ["bench", "throughput", "--workload", "single", "--quick", "--rounds", "1", "--json"]


class ScriptedEngine:
    """Returns the same token again and again, and records its calls."""

    def __init__(self, name: str, calls: list[str], differs: bool = False) -> None:
        self.name, self.calls, self.differs = name, calls, differs
        self.prompts: list[list[int]] = []

    def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
        self.calls.append(self.name)
        self.prompts += [request.prompt_token_ids for request in requests]
        outputs = [[1] * request.max_tokens for request in requests]
        outputs[2][1:] = [1 + 8 * self.differs] * len(outputs[2][1:])
        return outputs


def test_engines_take_strict_turns_on_the_same_prompts_and_differing_tokens_are_reported():
    calls: list[str] = []
    ours, peer = ScriptedEngine("ours", calls), ScriptedEngine("peer", calls, differs=True)
    with progress_bar() as progress:
        mine, theirs = measure_rounds(
            [ours, peer], lambda number: make_requests(SMALL, 0, number, 100), 2, progress, "small"
        )
    assert calls == ["ours", "peer"] * 3, "after one uncounted round each"
    assert len(mine.runs) == len(theirs.runs) == len(mine.outputs) == 2
    assert ours.prompts == peer.prompts
    assert len({tuple(prompt) for prompt in ours.prompts}) == 3 * SMALL.num_requests
    assert mine.identical(theirs) == pytest.approx(2 / 3)


def test_an_engine_that_returns_too_few_tokens_has_no_speed():
    peer = ScriptedEngine("peer", [])
    peer.generate = lambda requests: [[1]] * len(requests)
    with progress_bar() as progress, pytest.raises(BenchError, match="peer did not return all"):
        measure_rounds([peer], lambda _: [BenchRequest([1, 2], 2)], 1, progress, "small")


def test_speed_and_ratio_are_medians_over_rounds():
    outputs = [[[0] * 80]] * 3
    mine = EngineRounds("mine", [1.0, 2.0, 8.0], outputs)
    peer = EngineRounds("peer", [2.0, 8.0, 8.0], outputs)
    assert mine.tokens_per_s == 40.0
    assert peer.tokens_per_s == 10.0
    assert mine.ratio(peer) == 2.0  # of 2, 4 and 1, not the ratio of the medians, 8 / 2


@pytest.mark.parametrize("spec", WORKLOADS.values(), ids=lambda spec: spec.name)
def test_another_round_has_other_tokens_and_the_same_lengths(spec):
    first, second = (make_requests(spec, 7, number, 1000) for number in (1, 2))
    for a, b in zip(first, second, strict=True):
        assert (len(a.prompt_token_ids), a.max_tokens) == (len(b.prompt_token_ids), b.max_tokens)
        # The prefix cache hashes blocks of 16 tokens, so a round hits no block of an earlier one.
        assert a.prompt_token_ids[:16] != b.prompt_token_ids[:16]


def test_the_tokens_are_those_of_transformers(capsys):
    assert main([*QUICK, "--model", "tiny-random", "--vs", "transformers"]) == 0
    (peer,) = json.loads(capsys.readouterr().out)["peers"]
    assert peer["identical_sequences"] == 1.0


def test_the_published_workload_runs_on_dummy_weights_and_a_few_requests_on_a_cpu(capsys):
    nano = ["bench", "throughput", "--workload", "nano-vllm", "--json"]
    assert main(nano) == (0 if torch.cuda.is_available() else 1)
    few = [*nano, "--num-requests", "1"]
    assert main([*few, "--vs", "vllm", "--peer-python", "python"]) == 1
    assert "has no weights that a process could read" in capsys.readouterr().err
    nano += ["--num-requests", "2", "--quick", "--model", "tiny-random", "--dtype", "float32"]
    assert main(nano) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["requests"], result["rounds"], result["peers"]) == (2, 1, [])


def test_stored_formats_run_in_turns_with_the_model_as_it_is(capsys):
    assert main([*QUICK, "--model", "house", "--formats", "bfloat16,int8"]) == 0
    same, rounded = json.loads(capsys.readouterr().out)["peers"]
    assert (same["name"], same["identical_sequences"]) == ("bfloat16", 1.0)
    assert rounded["name"] == "int8"
    assert main([*QUICK, "--model", "house", "--formats", "q9"]) == 1
    assert "q4_0" in capsys.readouterr().err
