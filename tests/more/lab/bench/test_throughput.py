"""The throughput bench: strict turns, comparison of outputs, medians, and bad input."""

import json

import pytest

from minivllm.cli import main
from minivllm.errors import BenchError
from minivllm.lab.bench.throughput.engine_speed import EngineSpeed, time_engine
from minivllm.lab.bench.throughput.rounds import PeerRounds, Rounds, TokenMismatch, measure_rounds
from minivllm.lab.bench.throughput.workloads import (
    WORKLOADS,
    BenchRequest,
    WorkloadSpec,
    make_requests,
)
from minivllm.lab.common.report import progress_bar

SMALL = WorkloadSpec("small", 3, prompt_len=(4, 20), output_len=(2, 5), shared_prefix_len=8)
QUICK = ["bench", "throughput", "--workload", "single", "--quick", "--rounds", "1", "--json"]


class HandClock:
    seconds = 0.0

    def now(self) -> float:
        return self.seconds


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
        rounds = measure_rounds(SMALL, 0, 100, 2, ours, [peer], progress)
    assert calls == ["ours", "peer"] * 3, "after one uncounted round each"
    assert len(rounds.runs) == len(rounds.peers[0].runs) == len(rounds.output_tokens) == 2
    assert ours.prompts == peer.prompts
    assert len({tuple(prompt) for prompt in ours.prompts}) == 3 * SMALL.num_requests
    expected = [TokenMismatch(number, 2, 1, 1, 9) for number in (1, 2)]
    assert rounds.peers[0].differences == expected


def test_speed_and_ratio_are_medians_over_rounds():
    peer = PeerRounds("peer", [2.0, 8.0, 8.0])
    rounds = Rounds([1.0, 2.0, 8.0], [80, 80, 80], [peer])
    assert rounds.tokens_per_s(rounds.runs) == 40.0
    assert rounds.tokens_per_s(peer.runs) == 10.0
    assert rounds.ratio(peer) == 2.0  # of 2, 4 and 1, not the ratio of the medians, 8 / 2


@pytest.mark.parametrize("spec", WORKLOADS.values(), ids=lambda spec: spec.name)
def test_another_round_has_other_tokens_and_the_same_lengths(spec):
    first, second = (make_requests(spec, 7, number, 1000) for number in (1, 2))
    for a, b in zip(first, second, strict=True):
        assert (len(a.prompt_token_ids), a.max_tokens) == (len(b.prompt_token_ids), b.max_tokens)
        # The prefix cache hashes blocks of 16 tokens, so a round hits no block of an earlier one.
        assert a.prompt_token_ids[:16] != b.prompt_token_ids[:16]


def test_after_the_limit_no_batch_begins_and_the_speed_is_that_of_the_finished_requests():
    clock, asked, missing = HandClock(), [], 0

    class Steady:
        """Takes one second per request."""

        def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
            asked.append([request.max_tokens for request in requests])
            clock.seconds += len(requests)
            return [[1] * (request.max_tokens - missing) for request in requests]

    rounds = [[BenchRequest([1, 2], max_tokens) for max_tokens in (100, 10, 30, 40, 50)]] * 2
    time_engine(speed := EngineSpeed("steady"), Steady(), rounds, clock, batch_size=2, limit_s=3)
    assert asked[1:] == [[100, 10], [30, 40]]
    # The second batch ends at 4 s, beyond the limit. It counts, with its time.
    assert speed.runs == [4.0] and speed.output_tokens == [180]
    assert speed.extrapolated and speed.tokens_per_s == 45.0
    missing = 1
    with pytest.raises(BenchError, match="steady did not return all requested tokens"):
        time_engine(EngineSpeed("steady"), Steady(), rounds, clock)


def test_with_drafts_the_tokens_are_still_those_of_transformers(capsys):
    drafts = '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1}'
    asked = [*QUICK, "--model", "tiny-random", "--vs", "transformers", "--speculative-config"]
    assert main([*asked, drafts]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["speculative_config"]["method"] == "ngram"
    assert result["identical_sequences"] == 1.0 and result["differences"] == []
    assert result["ratio"] == pytest.approx(result["tokens_per_s"] / result["peer_tokens_per_s"])
    assert main([*asked, "ngram"]) == 2
    assert "must be a JSON object" in capsys.readouterr().err


def test_stored_formats_run_in_turns_with_the_model_as_it_is(capsys):
    assert main([*QUICK, "--model", "house", "--formats", "bfloat16,int8"]) == 0
    same, rounded = json.loads(capsys.readouterr().out)["peers"]
    assert (same["name"], same["identical_sequences"]) == ("bfloat16", 1.0)
    assert rounded["name"] == "int8"
    assert main([*QUICK, "--model", "house", "--formats", "q9"]) == 1
    assert "q4_0" in capsys.readouterr().err
