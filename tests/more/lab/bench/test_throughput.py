"""The throughput bench: strict turns, output comparison, and the promised JSON."""

import json
from pathlib import Path

import pytest

from minivllm.cli import main
from minivllm.lab.bench import memory
from minivllm.lab.bench.throughput import measured_workload
from minivllm.lab.bench.throughput.measured_workload import WorkloadSettings, measure
from minivllm.lab.bench.throughput.rounds import PeerRounds, Rounds, TokenMismatch, measure_rounds
from minivllm.lab.bench.throughput.weights_gguf import write_stored_copy
from minivllm.lab.bench.throughput.workloads import (
    WORKLOADS,
    BenchRequest,
    WorkloadSpec,
)
from minivllm.lab.common.report import progress_bar
from minivllm.runtime.checkpoint.checkpoint import GGUF_FILE
from minivllm.runtime.store.model_store import resolve_model

SMALL = WorkloadSpec(
    "small", num_requests=3, prompt_len=(4, 20), output_len=(2, 5), shared_prefix_len=8
)


class ScriptedEngine:
    """Returns the same token again and again, and records its calls."""

    def __init__(self, name: str, calls: list[str], token_id: int = 1) -> None:
        self.name = name
        self.calls = calls
        self.token_id = token_id
        self.prompts: list[list[int]] = []

    def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
        self.calls.append(self.name)
        self.prompts += [request.prompt_token_ids for request in requests]
        return [[self.token_id] * request.max_tokens for request in requests]


def run_rounds(engine: ScriptedEngine, peer: ScriptedEngine | None, num_rounds: int = 3) -> Rounds:
    with progress_bar() as progress:
        return measure_rounds(SMALL, 0, 100, num_rounds, engine, [peer] if peer else [], progress)


def test_engines_take_strict_turns_on_the_same_prompts_after_one_uncounted_round_each():
    calls: list[str] = []
    ours, peer = ScriptedEngine("ours", calls), ScriptedEngine("peer", calls)
    rounds = run_rounds(ours, peer)
    assert calls == ["ours", "peer"] * 4
    assert len(rounds.runs) == len(rounds.peers[0].runs) == len(rounds.output_tokens) == 3
    assert ours.prompts == peer.prompts
    assert len({tuple(prompt) for prompt in ours.prompts}) == 4 * SMALL.num_requests


def test_the_first_differing_token_of_each_request_is_reported():
    class Stubborn(ScriptedEngine):
        def generate(self, requests: list[BenchRequest]) -> list[list[int]]:
            outputs = super().generate(requests)
            outputs[2][1:] = [9] * len(outputs[2][1:])
            return outputs

    rounds = run_rounds(ScriptedEngine("ours", []), Stubborn("peer", []), num_rounds=2)
    assert rounds.peers[0].differences == [
        TokenMismatch(1, 2, 1, 1, 9),
        TokenMismatch(2, 2, 1, 1, 9),
    ]


def test_speed_and_ratio_are_medians_over_rounds():
    peer = PeerRounds("peer", [2.0, 8.0, 8.0])
    rounds = Rounds([1.0, 2.0, 8.0], [80, 80, 80], [peer])
    assert rounds.tokens_per_s(rounds.runs) == 40.0
    assert rounds.tokens_per_s(peer.runs) == 10.0
    assert rounds.ratio(peer) == 2.0  # of 2, 4 and 1, not the ratio of the medians, 8 / 2


def test_against_transformers_the_result_has_every_promised_key():
    peers = {"transformers": None}
    settings = WorkloadSettings(
        model="tiny-random", dtype="float32", seed=0, num_rounds=1, num_threads=1, peers=peers
    )
    (result,) = measure([SMALL], settings)
    promised = {"workload", "seed", "model", "dtype", "threads", "machine", "peak_rss_bytes"}
    assert set(result) >= promised
    assert set(result["versions"]) == {"python", "minivllm", "torch", "transformers"}
    assert len(result["runs"]) == len(result["peer_runs"]) == 1
    assert result["ratio"] == pytest.approx(result["tokens_per_s"] / result["peer_tokens_per_s"])
    assert result["tokens_per_s"] == pytest.approx(result["output_tokens"] / result["runs"][0])
    assert result["identical_sequences"] == 1.0 and result["differences"] == []


def test_with_drafts_the_tokens_are_still_those_of_transformers(capsys):
    drafts = '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1}'
    asked = ["--workload", "single", "--quick", "--model", "tiny-random", "--rounds", "1"]
    asked = ["bench", "throughput", *asked, "--vs", "transformers", "--json"]
    assert main([*asked, "--speculative-config", drafts]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["speculative_config"]["method"] == "ngram"
    assert result["identical_sequences"] == 1.0
    assert main([*asked, "--speculative-config", "ngram"]) == 2
    assert "must be a JSON object" in capsys.readouterr().err


def test_memory_is_measured_in_its_own_process(capsys):
    words = ["--workload", "single", "--model", "tiny-random", "--num-threads", "1", "--json"]
    assert main(["bench", "memory", *words]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["blocks"] == memory.num_blocks_for(WORKLOADS["single"]) == 16
    # 2 layers, keys and values, 2 heads of 16 numbers, 4 bytes each, for 16 blocks of 16 tokens.
    assert result["kv_cache_bytes"] == 2 * 2 * 2 * 16 * 4 * 16 * 16
    before, peak = result["before_model_rss_bytes"], result["peak_rss_bytes"]
    assert before <= result["loading_peak_rss_bytes"] <= peak
    assert result["ratio"] == peak / (result["weights_bytes"] + result["kv_cache_bytes"])


def test_llama_cpp_can_read_the_gguf_file_that_we_read(tmp_path, monkeypatch, capsys):
    write_stored_copy(resolve_model("tiny-random"), tmp_path, "q4_0")
    wanted = {}

    class ScriptedPeer(ScriptedEngine):
        versions, preloaded, peak_rss_bytes = {}, [], 0

        def __init__(self, name, python, settings):
            wanted.update(settings)
            super().__init__(name, [])

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    monkeypatch.setattr(measured_workload, "PeerProcess", ScriptedPeer)
    asked = ["bench", "throughput", "--workload", "single", "--quick", "--rounds", "1"]
    asked += ["--peer-gguf", "same", "--peer-python", "python3", "--vs"]
    assert main([*asked, "llama.cpp", "--model", str(tmp_path)]) == 0
    assert Path(wanted["model"]) == tmp_path / GGUF_FILE and wanted["dtype"] == "float16"
    capsys.readouterr()
    assert main([*asked, "llama.cpp", "--model", "tiny-random"]) == 1
    assert main([*asked, "vllm", "--model", str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("leave it out") == 1


def test_stored_formats_run_in_turns_with_the_model_as_it_is(capsys):
    asked = ["bench", "throughput", "--workload", "single", "--quick", "--model", "house"]
    asked += ["--rounds", "1", "--json", "--formats"]
    assert main([*asked, "bfloat16,int8"]) == 0
    same, rounded = json.loads(capsys.readouterr().out)["peers"]
    assert (same["name"], same["identical_sequences"]) == ("bfloat16", 1.0)
    assert rounded["name"] == "int8"
    assert main([*asked, "q9"]) == 1
    assert "q4_0" in capsys.readouterr().err
