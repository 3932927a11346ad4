"""The promise that everything else rests on: scheduling changes timing, never a token.

SmolLM2 in float32 must say exactly what `transformers.generate` says, whatever the batch, the chunk
size, the block size or the pool. Where a token differs, the two logits must be shown to be a tie within
rounding; anything else is a defect.
"""

import dataclasses

import pytest
import torch
from identity_prompts import CHAT, LONG, ONE_TOKEN_IDS, TEXT

from minivllm.config import EngineConfig
from minivllm.engine import LLMEngine
from minivllm.runtime.loader import load_model
from minivllm.runtime.model_runner import ModelRunner
from minivllm.sampling_params import RequestOutputKind, SamplingParams

MAX_TOKENS = 24
TIE = 1e-4
"""Two float32 logits (they are around 20) closer than this are one rounding apart."""

BASE = EngineConfig(
    model="smollm2",
    dtype="float32",
    device="cpu",
    num_gpu_blocks_override=512,
    max_num_seqs=16,
    max_num_batched_tokens=512,
    max_model_len=2048,
    check_invariants=True,
)
SCHEDULES = {
    "batched": {},
    "alone": {"max_num_seqs": 1},
    "chunks of 16": {"max_num_batched_tokens": 16, "max_num_seqs": 8},
    "chunks of 100": {"max_num_batched_tokens": 100},
    "blocks of 1": {"block_size": 1, "num_gpu_blocks_override": 4096},
    "blocks of 8": {"block_size": 8},
    "blocks of 32": {"block_size": 32},
    "without prefix caching": {"enable_prefix_caching": False},
    "a pool so small that sequences are preempted": {"num_gpu_blocks_override": 80},
}


@pytest.fixture(scope="module")
def model(smollm2_path):
    return load_model(BASE)


@pytest.fixture(scope="module")
def prompts(model) -> list[list[int]]:
    """24 prompts as token ids, from one token to over a thousand; two share a long prefix, two are equal."""
    tokenizer = model.tokenizer
    ids = [tokenizer.apply_chat_template([{"role": "user", "content": text}]) for text in CHAT]
    ids += [tokenizer.encode(text) for text in TEXT]
    long = tokenizer.encode(LONG * 30)[:1100]
    assert len(long) == 1100
    ids += [long, [*long[:640], *tokenizer.encode(" And then")], ONE_TOKEN_IDS, ids[0]]
    return ids


@pytest.fixture(scope="module")
def peer(smollm2_path):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(smollm2_path, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def expected(peer, prompts) -> list[list[int]]:
    """What transformers generates for each prompt, alone."""
    return [_generate(peer, token_ids) for token_ids in prompts]


def _generate(peer, token_ids: list[int]) -> list[int]:
    with torch.inference_mode():
        output = peer.generate(
            torch.tensor([token_ids]),
            attention_mask=torch.ones(1, len(token_ids), dtype=torch.long),
            max_new_tokens=MAX_TOKENS,
            do_sample=False,
            pad_token_id=0,
        )
    return output[0, len(token_ids) :].tolist()


def run(
    model, prompts: list[list[int]], params: SamplingParams, **options: object
) -> tuple[list[list[int]], LLMEngine]:
    """All prompts through a fresh engine around the loaded model; their output tokens, and the engine."""
    config = dataclasses.replace(BASE, **options)
    engine = LLMEngine(config, ModelRunner(config, model), model.tokenizer)
    params = dataclasses.replace(params, output_kind=RequestOutputKind.FINAL_ONLY)
    for number, token_ids in enumerate(prompts):
        engine.add_request(str(number), {"prompt_token_ids": token_ids}, params)
    outputs: dict[str, list[int]] = {}
    while engine.has_unfinished_requests():
        outputs.update((output.request_id, output.outputs[0].token_ids) for output in engine.step())
    return [outputs[str(number)] for number in range(len(prompts))], engine


def assert_same_or_tie(peer, token_ids: list[int], ours: list[int], theirs: list[int]) -> None:
    """Equal, or different first at a position where the peer itself sees the two tokens as a tie."""
    if ours == theirs:
        return
    split = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
    with torch.inference_mode():
        logits = peer(torch.tensor([token_ids + theirs[:split]])).logits[0, -1]
    gap = (logits[theirs[split]] - logits[ours[split]]).item()
    assert gap < TIE, f"token {split}: ours {ours[split]}, theirs {theirs[split]}, the logits are {gap:.6f} apart"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_greedy_tokens_equal_those_of_transformers_under_every_schedule(schedule, model, peer, prompts, expected):
    outputs, engine = run(model, prompts, SamplingParams(temperature=0, max_tokens=MAX_TOKENS), **SCHEDULES[schedule])
    for token_ids, ours, theirs in zip(prompts, outputs, expected, strict=True):
        assert_same_or_tie(peer, token_ids, ours, theirs)
    counters = engine.inspect().counters
    if "preempted" in schedule:
        assert counters.num_preemptions >= 3
    if schedule == "batched":
        assert counters.prefix_cache_hits >= 640


def test_seeded_sampling_gives_the_same_tokens_under_every_schedule(model, prompts):
    params = SamplingParams(temperature=0.9, top_p=0.95, top_k=50, seed=7, max_tokens=16, ignore_eos=True)
    some = [token_ids for token_ids in prompts if len(token_ids) < 200] + [prompts[-4][:300]]
    reference, _ = run(model, some, params, max_num_seqs=1)
    assert len({tuple(tokens) for tokens in reference}) > 15, "sampling must depend on the prompt"
    for name, options in SCHEDULES.items():
        small = {"num_gpu_blocks_override": 24} if "preempted" in name else {}
        outputs, engine = run(model, some, params, **{**options, **small})
        assert outputs == reference, name
        if small:
            assert engine.inspect().counters.num_preemptions >= 3


def test_another_seed_gives_other_tokens_and_no_seed_depends_on_the_engine_seed_alone(model, prompts):
    some = prompts[:4]
    params = SamplingParams(temperature=1.0, max_tokens=12, ignore_eos=True)

    def with_seed(seed: int | None) -> list[list[int]]:
        return run(model, some, dataclasses.replace(params, seed=seed))[0]

    assert with_seed(1) == with_seed(1) != with_seed(2)
    assert with_seed(None) == with_seed(None)
