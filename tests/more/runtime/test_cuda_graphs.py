"""Padded decode steps of every tiny model, and with random drafts."""

import random

import pytest
import torch
from runtime.test_cuda_graphs import (
    BLOCK_SIZE,
    drafting_runner,
    one_thread,
    plan_drafts,
    spy_on_runs,
    static_runner,
)
from support.model.needs import interpreted
from support.model.tiny_models import (
    PEERS,
    PlannedRunner,
    load_into_ours,
    make_peer,
    steps_of_all_kinds,
)

from minivllm import LLM, SamplingParams
from minivllm.core.request import Sequence
from minivllm.runtime.step_result import Watch

__all__ = ["one_thread"]

pytestmark = interpreted


@pytest.mark.parametrize(
    ("name", "custom_ops"), [("llama", "none"), *((name, "all") for name in PEERS)]
)
def test_a_padded_batch_gives_the_logits_of_an_unpadded_one(name, custom_ops, monkeypatch):
    run = static_runner(monkeypatch, [2, 5], name, custom_ops=[custom_ops])
    ran = spy_on_runs(run, monkeypatch)
    plain = PlannedRunner(load_into_ours(make_peer(name)), max_num_seqs=5)
    for ours, theirs in zip(steps_of_all_kinds(run), steps_of_all_kinds(plain), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert ran == [5], "three decodes, and the other steps have chunks"


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


def roll_back(run: PlannedRunner, sequence: Sequence, num_rejected: int) -> None:
    """Forget rejected drafts. Their last block is the next one that is given away."""
    sequence.num_computed_tokens -= num_rejected
    while len(sequence.block_table) * BLOCK_SIZE >= sequence.num_computed_tokens + BLOCK_SIZE:
        run._free_blocks.append(sequence.block_table.pop())


@pytest.mark.parametrize("seed", [0, 1])
def test_steps_with_drafts_give_the_hidden_states_of_the_torch_reference(seed, monkeypatch):
    """Zero to three drafts, accepted or not; blocks change owners; all steps are padded ones."""
    rng = random.Random(seed)
    runs = [
        drafting_runner("triton:static", custom_ops=["all" if seed else "none"]),
        drafting_runner("torch"),
    ]
    ran = spy_on_runs(runs[0], monkeypatch)
    prompts = [[rng.randrange(256) for _ in range(length)] for length in (5, 8, 14)]
    sequences = [[run.new(prompt) for prompt in prompts] for run in runs]
    for run, own in zip(runs, sequences, strict=True):
        run.run(*((sequence, len(sequence.token_ids)) for sequence in own))
    assert ran == []
    num_shrunk = num_crossings = 0
    for step in range(8):
        tokens = [[rng.randrange(256) for _ in range(1 + rng.randrange(4))] for _ in prompts]
        right = [rng.randrange(len(token_ids)) for token_ids in tokens]
        order = rng.sample(range(3), k=3 if step % 4 else 2)  # rows move
        logits = []
        for run, own in zip(runs, sequences, strict=True):
            for i in order:
                own[i].append_token(tokens[i][0])
            plan = plan_drafts(run, {own[i]: tokens[i][1:] for i in order})
            logits.append(run.runner.execute_model(plan).logits)
            for i in order:
                before = len(own[i].block_table)
                first = own[i].num_tokens // BLOCK_SIZE
                num_crossings += own[i].num_computed_tokens // BLOCK_SIZE > first
                roll_back(run, own[i], len(tokens[i]) - 1 - right[i])
                num_shrunk += len(own[i].block_table) < before
                for token_id in tokens[i][1 : 1 + right[i]]:
                    own[i].append_token(token_id)
        assert len(logits[0]) == sum(len(tokens[i]) for i in order), "a row for each draft"
        torch.testing.assert_close(*logits, rtol=1e-4, atol=1e-5)
    assert len(ran) == 8 and num_shrunk > 3 and num_crossings > 3


def test_an_engine_that_preempts_and_forks_gives_the_same_tokens_as_with_torch():
    """Rows move, blocks change owners and sequences return: real steps with interpreted kernels."""
    params = [
        SamplingParams(temperature=0, max_tokens=length, ignore_eos=True)
        for length in (20, 14, 9, 17)
    ]
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
