"""The workload nano-vllm: four engines on the same dummy weights, with a time limit."""

import json
from dataclasses import replace

import pytest

from minivllm.cli import main
from minivllm.lab.bench.throughput import nano_vllm
from minivllm.lab.bench.throughput.dummy_peers import ContinuousBatches, load_dummy_transformers
from minivllm.lab.bench.throughput.nano_vllm import NanoVllmSettings, measure
from minivllm.lab.bench.throughput.peers import MinivllmEngine, StaticBatches
from minivllm.lab.bench.throughput.workloads import NANO_VLLM, WorkloadSpec, make_requests
from minivllm.runtime.store.model_store import resolve_model

SMALL = WorkloadSpec("small", num_requests=3, prompt_len=(4, 20), output_len=(2, 20))
VOCAB_SIZE = 259
PEERS = [
    "transformers, one at a time",
    "transformers, static batches of 32",
    "transformers, continuous batching",
]


@pytest.fixture(scope="module")
def dummy_model():
    return load_dummy_transformers(resolve_model("tiny-random"), "float32", "cpu", seed=5)


@pytest.fixture(scope="module")
def continuous_batching(dummy_model) -> None:
    """Skip where it cannot run on a CPU: transformers 5.17 needs psutil to see free memory."""
    try:
        ContinuousBatches(dummy_model, SMALL, limit_s=60).close()
    except MemoryError as error:
        pytest.skip(f"transformers' continuous batching cannot run here: {error}")


@pytest.fixture
def settings() -> NanoVllmSettings:
    return NanoVllmSettings(
        spec=SMALL, model="tiny-random", dtype="float32", device="cpu", attention_backend="torch",
        seed=0, num_rounds=1, num_threads=1, peer_seconds=60,
    )  # fmt: skip


@pytest.mark.usefixtures("continuous_batching")
def test_all_four_engines_say_the_same_on_the_same_dummy_weights(dummy_model):
    requests = make_requests(SMALL, 0, 1, VOCAB_SIZE)
    ours = MinivllmEngine("tiny-random", "float32", "cpu", load_format="dummy", seed=5).generate(
        requests
    )
    # different tokens, since equal ones would prove little
    assert len({token for output in ours for token in output}) > 3
    assert StaticBatches(dummy_model, "alone", 1).generate(requests) == ours
    assert StaticBatches(dummy_model, "batch", 32).generate(requests) == ours
    continuous = ContinuousBatches(dummy_model, SMALL, limit_s=60)
    try:
        assert continuous.generate(requests) == ours
    finally:
        continuous.close()


def test_a_peer_that_fails_is_left_out_with_its_reason_and_the_others_run(settings, monkeypatch):
    def fail(*args: object) -> None:
        raise RuntimeError("no such kernel\nand a long story")

    monkeypatch.setattr(
        nano_vllm, "ContinuousBatches", type("Broken", (), {"name": PEERS[2], "__init__": fail})
    )
    result = measure(settings)
    *others, continuous = result["engines"]
    assert (
        continuous["left_out"] == "RuntimeError: no such kernel"
        and continuous["tokens_per_s"] is None
    )
    assert result["ratios"][PEERS[2]] is None
    assert all(engine["tokens_per_s"] > 0 for engine in others)


@pytest.mark.usefixtures("continuous_batching")
def test_the_command_runs_the_requests_that_were_asked_for(monkeypatch, capsys):
    monkeypatch.setattr(nano_vllm.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(
        nano_vllm, "NANO_VLLM", replace(NANO_VLLM, prompt_len=(10, 20), output_len=(3, 9))
    )
    words = ["--workload", "nano-vllm", "--num-requests", "2", "--model", "tiny-random"]
    options = ["--dtype", "float32", "--num-threads", "1", "--json"]
    assert main(["bench", "throughput", *words, *options]) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert result["requests"] == 2 and result["rounds"] == 1 and result["model"] == "tiny-random"
    assert all(ratio > 0 for ratio in result["ratios"].values()) and list(result["ratios"]) == PEERS
    assert "not compared" in captured.err and "nano-vllm, minivllm:" in captured.err
