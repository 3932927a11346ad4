"""The throughput bench: strict turns, comparison of outputs, medians, and bad input."""

import json

import pytest
import torch

from minivllm.cli import main
from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.rounds import EngineRounds, measure_rounds
from minivllm.lab.bench.throughput.workloads import BenchRequest, WorkloadSpec, make_requests
from minivllm.lab.common.report import progress_bar

SMALL = WorkloadSpec("small", 3, prompt_len=(4, 20), output_len=(2, 5), shared_prefix_len=8)
QUICK = ["bench", "throughput", "--workload", "single", "--quick", "--rounds", "1", "--json"]


class ScriptedEngine:
    """Returns the same token again and again, and records its calls."""

    def __init__(self, name: str, calls: list[str], token_id: int = 1) -> None:
        self.name, self.calls, self.token_id = name, calls, token_id
        self.rounds: list[list[BenchRequest]] = []

    def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
        self.calls.append(self.name)
        self.rounds.append(requests)
        ids = [1, 1, self.token_id]
        return [[ids[i]] * request.max_tokens for i, request in enumerate(requests)]


def test_engines_take_strict_turns_on_the_same_new_prompts_and_differing_tokens_are_reported():
    calls: list[str] = []
    ours, peer = ScriptedEngine("ours", calls), ScriptedEngine("peer", calls, token_id=9)
    requests = [make_requests(SMALL, 0, number, 100) for number in range(3)]
    with progress_bar() as progress:
        mine, theirs = measure_rounds([ours, peer], requests, progress, "small")
    assert calls == ["ours", "peer"] * 3, "after one uncounted round each"
    assert len(mine.runs) == len(theirs.runs) == len(mine.outputs) == 2
    assert ours.rounds == peer.rounds
    prompts = [[request.prompt_token_ids for request in each] for each in ours.rounds]
    assert len({tuple(prompt[:8]) for each in prompts for prompt in each}) == 3
    assert len({tuple(map(len, each)) for each in prompts}) == 1
    assert mine.identical(theirs) == pytest.approx(2 / 3)
    peer.generate = lambda requests: [[1]] * len(requests)
    with progress_bar() as progress, pytest.raises(BenchError, match="peer did not return all"):
        measure_rounds([peer], requests, progress, "small")


def test_speed_and_ratio_are_medians_over_rounds():
    outputs = [[[0] * 80]] * 3
    mine = EngineRounds("mine", [1.0, 2.0, 8.0], outputs)
    peer = EngineRounds("peer", [2.0, 8.0, 8.0], outputs)
    assert (mine.tokens_per_s, peer.tokens_per_s) == (40.0, 10.0)
    assert mine.ratio(peer) == 2.0  # of 2, 4 and 1, not the ratio of the medians, 8 / 2


def test_the_tokens_are_those_of_transformers(capsys):
    assert main([*QUICK, "--model", "tiny-random", "--vs", "transformers"]) == 0
    (peer,) = json.loads(capsys.readouterr().out)["peers"]
    assert peer["identical_sequences"] == 1.0


def test_the_published_workload_needs_a_gpu_or_runs_a_few_requests(capsys):
    nano = ["bench", "throughput", "--workload", "nano-vllm", "--json"]
    assert main(nano) == (0 if torch.cuda.is_available() else 1)
    capsys.readouterr()
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
