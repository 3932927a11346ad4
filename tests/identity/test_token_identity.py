"""Scheduling changes timing, never a token.

SmolLM2 in float32 must say exactly what `transformers.generate` says, for any batch, chunk size,
block size or pool. Where a token differs, the two logits must tie within rounding.
"""

import dataclasses
from collections.abc import Callable
from functools import cache

import pytest
from support.engine.identity_prompts import CHAT, LONG, ONE_TOKEN_IDS, TEXT
from support.engine.identity_runs import (
    BASE,
    QUICK_SCHEDULES,
    SCHEDULES,
    assert_same_or_tie,
    generate,
    run,
)

from minivllm.runtime.loader import load_model
from minivllm.sampling_params import SamplingParams

MAX_TOKENS = 16
FEW_TOKENS = 10


@pytest.fixture(scope="module")
def prompts(smollm2) -> list[list[int]]:
    """24 prompts of 1 to 1,100 tokens; two share a long prefix, two are equal."""
    tokenizer = smollm2.tokenizer
    ids = [tokenizer.apply_chat_template([{"role": "user", "content": text}]) for text in CHAT]
    ids += [tokenizer.encode(text) for text in TEXT]
    long = tokenizer.encode(LONG * 30)[:1100]
    assert len(long) == 1100
    ids += [long, [*long[:640], *tokenizer.encode(" And then")], ONE_TOKEN_IDS, ids[0]]
    return ids


@pytest.fixture(scope="module")
def expected(smollm2_peer) -> Callable[[tuple[int, ...], int], list[int]]:
    @cache
    def of(prompt: tuple[int, ...], max_tokens: int) -> list[int]:
        return generate(smollm2_peer, list(prompt), max_new_tokens=max_tokens)[0]

    return of


@pytest.fixture(scope="module")
def few_prompts(prompts) -> list[list[int]]:
    """One prompt of each kind for the fast tests. The long ones are shorter."""
    *_, long, branched, one_token, again = prompts
    shared = long[:160]
    few = [prompts[0], *prompts[4:20:8], one_token, again]
    return [*few, [*shared, *long[160:200]], [*shared, *branched[640:]]]


def assert_tokens_equal_those_of_transformers(
    schedule, some, smollm2, smollm2_peer, expected, max_tokens=FEW_TOKENS, **options
):
    longest = max(map(len, some))
    if "preempted" in schedule:  # the smallest pool cannot hold the long prompts
        some = [prompt for prompt in some if len(prompt) < 100]
    params = SamplingParams(temperature=0, max_tokens=max_tokens)
    outputs, engine = run(smollm2, some, params, **SCHEDULES[schedule], **options)
    for prompt, (ours,) in zip(some, outputs, strict=True):
        assert_same_or_tie(smollm2_peer, prompt, ours, expected(tuple(prompt), max_tokens))
    counters = engine.inspect().counters
    if "preempted" in schedule:
        assert counters.num_preemptions >= 3
    if schedule == "batched":
        assert counters.prefix_cache_hits >= 0.58 * longest, "shared by the long prompts"


@pytest.mark.parametrize("schedule", QUICK_SCHEDULES)
def test_greedy_tokens_equal_those_of_transformers_under_every_kind_of_schedule(
    schedule, smollm2, smollm2_peer, few_prompts, expected
):
    some, options = few_prompts, {}
    if "preempted" in schedule:  # needs many prompts in little memory
        some, options = 3 * few_prompts, {"block_size": 8}
    assert_tokens_equal_those_of_transformers(
        schedule, some, smollm2, smollm2_peer, expected, **options
    )


@pytest.mark.parametrize("linear_backend", ["onednn", "torch"])
def test_greedy_tokens_equal_those_of_transformers_with_every_linear_backend(
    linear_backend, smollm2_peer, few_prompts, expected
):
    model = load_model(dataclasses.replace(BASE, linear_backend=linear_backend))
    assert_tokens_equal_those_of_transformers(
        "chunks of 16", few_prompts[:2], model, smollm2_peer, expected
    )


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_greedy_tokens_of_every_prompt_equal_those_of_transformers_under_every_schedule(
    schedule, smollm2, smollm2_peer, prompts, expected
):
    assert_tokens_equal_those_of_transformers(
        schedule, prompts, smollm2, smollm2_peer, expected, max_tokens=MAX_TOKENS
    )


@pytest.mark.parametrize(
    ("schedules", "longest"),
    [
        (("batched", "chunks of 16", "a pool so small that sequences are preempted"), 100),
        pytest.param(tuple(SCHEDULES), 300, marks=pytest.mark.slow),
    ],
    ids=["the most different schedules", "every schedule"],
)
def test_seeded_sampling_gives_the_same_tokens_under(schedules, longest, smollm2, prompts):
    params = SamplingParams(
        temperature=0.9, top_p=0.95, top_k=50, seed=7, max_tokens=13, ignore_eos=True
    )
    short = [token_ids for token_ids in prompts if len(token_ids) < 200]
    some = [*short[::3], prompts[-4][:longest]]
    reference, _ = run(smollm2, some, params, max_num_seqs=1)
    assert len({tuple(tokens) for (tokens,) in reference}) > 4, "sampling must depend on the prompt"
    for name in schedules:
        if name == "alone":
            continue  # the reference itself
        # The smallest pool cannot hold the long prompt.
        num_prompts = len(some) - 1 if "preempted" in name else len(some)
        outputs, engine = run(smollm2, some[:num_prompts], params, **SCHEDULES[name])
        assert outputs == reference[:num_prompts], name
        if "preempted" in name:
            assert engine.inspect().counters.num_preemptions >= 2


def test_another_seed_gives_other_tokens_and_no_seed_means_the_engine_seed(smollm2, prompts):
    some = prompts[:3]
    params = SamplingParams(temperature=1.0, max_tokens=8, ignore_eos=True)

    def with_seed(seed: int | None) -> list[list[list[int]]]:
        return run(smollm2, some, dataclasses.replace(params, seed=seed))[0]

    assert with_seed(1) == with_seed(1) != with_seed(2)
    assert with_seed(None) == with_seed(None)
