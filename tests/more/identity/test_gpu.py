"""The same requests give the same tokens on a CUDA device. Run by `make test-gpu` only."""

import dataclasses

import pytest
import torch
from support.engine import identity_runs
from support.engine.identity_prompts import prompts_for
from support.engine.identity_runs import SCHEDULES, assert_same_or_tie, base_of, generate, run

from minivllm import LLM, EngineConfig, SamplingParams
from minivllm.engine.engine import LLMEngine
from minivllm.runtime.loader import LoadedModel, load_model

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="there is no CUDA device on this machine"
    ),
]

PROMPTS = ["Hello", "Hello there, how are you?", "x", "Once upon a time in a land far away"]
VERSIONS = ("triton:naive", "triton:grouped", "triton:split", "triton:static", "triton:unified")
DRAFT_MODEL = {"method": "draft_model", "num_speculative_tokens": 3, "model": "tiny-random"}
BACKENDS = {
    "torch": {"attention_backend": "torch"},
    **{version: {"attention_backend": version, "enforce_eager": True} for version in VERSIONS},
    "triton without fused operations": {"attention_backend": "triton", "custom_ops": ["none"]},
    "triton with CUDA graphs": {"attention_backend": "triton"},
    "auto": {},
    "drafts of a model": {"speculative_config": DRAFT_MODEL},
}


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[torch.cuda.CUDAGraph]:
    """One entry for each replay of a graph."""
    replays: list[torch.cuda.CUDAGraph] = []
    original = torch.cuda.CUDAGraph.replay

    def replay(graph: torch.cuda.CUDAGraph) -> None:
        replays.append(graph)
        original(graph)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", replay)
    return replays


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("num_blocks", [64, 12])
def test_greedy_tokens_on_cuda_equal_those_on_a_cpu(tiny_random_path, num_blocks, backend, replays):
    params = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
    tokens = {}
    for device, options in (("cpu", {}), ("cuda", BACKENDS[backend])):
        llm = LLM(
            model="tiny-random", device=device, dtype="float32", num_gpu_blocks_override=num_blocks,
            max_num_batched_tokens=32, check_invariants=True, **options,
        )  # fmt: skip
        tokens[device] = [
            output.outputs[0].token_ids for output in llm.generate(PROMPTS, params, use_tqdm=False)
        ]
    assert tokens["cuda"] == tokens["cpu"]
    assert bool(replays) == (backend != "torch" and backend not in VERSIONS)


# ---- SmolLM2 in float32, against transformers ----


@pytest.fixture(scope="module")
def smollm2_on_cuda(smollm2_path) -> LoadedModel:
    return load_model(dataclasses.replace(base_of("smollm2"), device="cuda"))


@pytest.mark.parametrize("enforce_eager", [False, True], ids=["graphs", "eager"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_triton_gives_the_tokens_of_transformers(schedule, enforce_eager, smollm2_on_cuda, replays):
    peer = identity_runs.peer_of("smollm2")
    *short, long, _ = prompts_for(smollm2_on_cuda.tokenizer)
    # The preempting schedule's pool cannot hold the long prompt.
    prompts = short[:4] if "preempted" in schedule else [*short[:4], long]
    params = SamplingParams(temperature=0, max_tokens=16)
    options = {"device": "cuda", "attention_backend": "triton", "enforce_eager": enforce_eager}
    options |= SCHEDULES[schedule]
    outputs, _ = run(smollm2_on_cuda, prompts, params, **options)
    for token_ids, (ours,) in zip(prompts, outputs, strict=True):
        assert_same_or_tie(peer, token_ids, ours, generate(peer, token_ids, max_new_tokens=16)[0])
    assert bool(replays) == (not enforce_eager and options["attention_backend"] == "triton")


# ---- graphs, waiting, memory ----


def test_steps_after_prompts_are_replayed_and_drafts_change_no_token(tiny_random_path, replays):
    config = EngineConfig(
        model="tiny-random", device="cuda", dtype="float32", num_gpu_blocks_override=64
    )
    params = SamplingParams(
        temperature=0.8, seed=3, max_tokens=20, ignore_eos=True, logit_bias={8: 9.0, 9: 9.0}
    )
    tokens = []
    lookup = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 1}
    for drafts in (None, lookup):
        own = dataclasses.replace(config, speculative_config=drafts)
        engine = LLMEngine.from_model(own, load_model(config))
        for number, prompt in enumerate(PROMPTS):
            engine.add_request(str(number), prompt, params)
        replays.clear()
        engine.step()
        assert replays == [], "a step with chunks is not replayed"
        num_steps, found = 0, {}
        while engine.has_unfinished_requests():
            found |= {output.request_id: output.outputs[0].token_ids for output in engine.step()}
            num_steps += 1
        assert len(replays) == num_steps and (drafts or len(set(replays)) == 1)
        tokens.append(found)
    assert tokens[0] == tokens[1]
    assert engine.inspect().counters.spec_decode_num_accepted_tokens > 0


@pytest.mark.parametrize("backend", ["triton:split", "triton:static", "triton:unified"])
def test_a_forward_pass_never_waits_for_the_device(tiny_random_path, backend):
    config = EngineConfig(
        model="tiny-random", device="cuda", num_gpu_blocks_override=64, attention_backend=backend
    )
    engine = LLMEngine.from_config(config)
    runner, original = engine.core.runner, engine.core.runner.execute_model
    params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)

    watched = []

    def execute_model(plan, watch):
        watched.append(plan)
        torch.cuda.set_sync_debug_mode("error")  # from here on, a wait raises
        try:
            return original(plan, watch)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    for round_ in range(2):  # the first round compiles kernels
        if round_ == 1:
            runner.execute_model = execute_model
        for number, prompt in enumerate(PROMPTS):
            engine.add_request(f"{round_} {number}", prompt, params)
        while engine.has_unfinished_requests():
            engine.step()
    assert (
        sum(plan.total_num_scheduled_tokens for plan in watched) >= len(PROMPTS) * params.max_tokens
    )


def test_without_an_override_the_cache_takes_what_the_utilization_leaves(tiny_random_path):
    small = LLM(model="tiny-random", device="cuda", gpu_memory_utilization=0.3)
    num_small = len(small.llm_engine.inspect().free_queue)
    del small
    torch.cuda.empty_cache()
    large = LLM(model="tiny-random", device="cuda", gpu_memory_utilization=0.6)
    assert len(large.llm_engine.inspect().free_queue) > 1.5 * num_small
