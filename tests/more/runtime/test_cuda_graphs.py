"""Padded decode steps of every tiny model, and with random drafts."""

import pytest
import torch
from runtime.test_cuda_graphs import one_thread, spy_on_runs, static_runner
from support.model import tiny_models
from support.model.needs import INTERPRETED, interpreted, on_any_device

from minivllm import LLM, SamplingParams
from minivllm.runtime.step_result import Watch

__all__ = ["one_thread"]

INT8 = {"kv_cache_dtype": "int8_per_token_head"}


@on_any_device
@pytest.mark.parametrize(
    ("name", "custom_ops", "cache"),
    [
        ("llama", "none", {}), ("qwen3-window", "all", INT8),
        *((name, "all", {}) for name in (*tiny_models.PEERS, "qwen3-window", "qwen3-moe")),
    ],
)  # fmt: skip
def test_a_padded_batch_gives_the_logits_of_an_unpadded_one(name, custom_ops, cache, monkeypatch):
    """On a device the padded batch is a replayed graph; the other is always torch's on the CPU."""
    run = static_runner(monkeypatch, [2, 5], name, custom_ops=[custom_ops], **cache)
    ran = spy_on_runs(run, monkeypatch)
    plain = tiny_models.load_into_ours(tiny_models.make_peer(name))
    plain = tiny_models.PlannedRunner(plain, max_num_seqs=5, attention_backend="torch", **cache)
    for ours, theirs in zip(
        tiny_models.steps_of_all_kinds(run), tiny_models.steps_of_all_kinds(plain), strict=True
    ):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)
    # Three decodes; the other steps have chunks. A replayed graph runs no Python.
    assert ran == ([5] if INTERPRETED else [])


@interpreted
def test_steps_with_a_chunk_or_with_attention_mass_are_not_padded(monkeypatch):
    run = static_runner(monkeypatch, [4])
    ran = spy_on_runs(run, monkeypatch)
    first, second = run.new([1, 2, 3]), run.new([4])
    run.run((first, 3), (second, 1))
    assert ran == []
    first.append_token(5)
    result = run.runner.execute_model(run.plan((first, 1)), Watch(attention_mass=True))
    assert (ran, len(result.attention_mass)) == ([], 1)
    first.append_token(6)
    run.run((first, 1))
    assert ran == [4]


@interpreted
def test_an_engine_that_preempts_and_forks_gives_the_same_tokens_as_with_torch():
    """Rows move, blocks change owners and sequences return: real steps with interpreted kernels."""
    greedy = {"temperature": 0, "ignore_eos": True}
    params = [SamplingParams(max_tokens=length, **greedy) for length in (20, 14, 9, 17)]
    params.append(SamplingParams(temperature=1.0, seed=1, n=3, max_tokens=7, ignore_eos=True))
    prompts = ["Hello there", "x", "Once upon", "abcdefgh", "Hello"]
    texts = {}
    for backend in ("torch", "triton:unified"):
        llm = LLM(
            "tiny-random", dtype="float32", device="cpu", attention_backend=backend,
            num_gpu_blocks_override=8, block_size=8, max_num_seqs=4, max_num_batched_tokens=24,
            max_model_len=64, check_invariants=True,
        )  # fmt: skip
        outputs = llm.generate(prompts, params, use_tqdm=False)
        texts[backend] = [text.token_ids for output in outputs for text in output.outputs]
        counters = llm.llm_engine.inspect().counters
        assert counters.num_preemptions > 0 and counters.forked_sequences == 2
    assert texts["torch"] == texts["triton:unified"]
