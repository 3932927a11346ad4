"""Samples and beams of the real model: forks, copies and preemption change no token.

Beams must equal those of `transformers.generate(num_beams=k)` on SmolLM2 in float32, all of them in
order, alone and in a batch. Where they differ, both must have the same probability within rounding.
"""

import dataclasses

import pytest
import torch
from support.engine.identity_prompts import CHAT, TEXT
from support.engine.identity_runs import generate, run

from minivllm.sampling_params import SamplingParams

MAX_TOKENS = 14
TIE = 1e-3
"""Two float32 log-probabilities of a text closer than this differ by a few roundings."""

SEARCHES = {
    "early stopping": {"beam_width": 4, "early_stopping": True},
    "short texts favoured": {"beam_width": 4, "length_penalty": -2.0},
    "never early, long texts favoured": {
        "beam_width": 3,
        "early_stopping": "never",
        "length_penalty": 3.0,
    },
    "six beams": {"beam_width": 6},
}
SCHEDULES = {
    "all at once": {},
    "chunks of 16": {"max_num_batched_tokens": 16},
    "a pool so small that beams are preempted": {"num_gpu_blocks_override": 22},
    "one search at a time": {"max_num_seqs": 6},
    "blocks of 1": {"block_size": 1, "num_gpu_blocks_override": 4096},
    "without prefix caching": {"enable_prefix_caching": False},
}


def quick_first(names, num_quick: int) -> list:
    """Mark all but the first `num_quick` as slow."""
    slow = (pytest.param(name, marks=pytest.mark.slow) for name in list(names)[num_quick:])
    return [*list(names)[:num_quick], *slow]


@pytest.fixture(scope="module")
def prompts(smollm2) -> list[list[int]]:
    """Five prompts of chat, prose and code. The first and the last are equal."""
    tokenizer = smollm2.tokenizer
    ids = [tokenizer.apply_chat_template([{"role": "user", "content": text}]) for text in CHAT[2:3]]
    ids += [tokenizer.encode(text) for text in TEXT[:3]]
    return [*ids, ids[0]]


@pytest.fixture(scope="module")
def four_beams(smollm2, smollm2_peer, prompts) -> list[list[list[int]]]:
    """transformers' four beams for each prompt, best first."""
    options = {
        "eos_token_ids": smollm2.tokenizer.eos_token_ids,
        "beam_width": 4,
        "max_new_tokens": MAX_TOKENS,
    }
    found = [
        beams_of_transformers(smollm2_peer, token_ids, **options) for token_ids in prompts[:-1]
    ]
    return [*found, found[0]]


def beams_of_transformers(
    peer, token_ids: list[int], eos_token_ids: frozenset[int], beam_width: int, **options: object
) -> list[list[int]]:
    options = {"num_beams": beam_width, "num_return_sequences": beam_width, **options}
    found = generate(peer, token_ids, eos_token_id=sorted(eos_token_ids), **options)
    return [_to_the_end(tokens, eos_token_ids) for tokens in found]


def _to_the_end(tokens: list[int], eos_token_ids: frozenset[int]) -> list[int]:
    """Cut the padding after shorter texts."""
    ends = [i for i, token_id in enumerate(tokens, 1) if token_id in eos_token_ids]
    return tokens[: min(ends, default=len(tokens))]


@torch.inference_mode()
def _logprob(peer, prompt: list[int], tokens: list[int]) -> float:
    """Log-probability of a whole text, by the peer."""
    logprobs = peer(torch.tensor([prompt + tokens])).logits[0].log_softmax(dim=-1)
    first = len(prompt) - 1
    return sum(float(logprobs[first + i, token]) for i, token in enumerate(tokens))


def assert_same_or_tie(
    peer, prompt: list[int], ours: list[list[int]], theirs: list[list[int]]
) -> None:
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        if mine != other:
            gap = abs(_logprob(peer, prompt, mine) - _logprob(peer, prompt, other))
            assert gap < TIE, (
                f"{mine} instead of {other}, and their log-probabilities are {gap} apart"
            )


@pytest.mark.parametrize("schedule", quick_first(SCHEDULES, 3))
def test_four_beams_are_those_of_transformers_under_every_schedule(
    schedule, smollm2, smollm2_peer, prompts, four_beams
):
    params = SamplingParams(n=4, beam_width=4, max_tokens=MAX_TOKENS)
    outputs, engine = run(smollm2, prompts, params, **{"max_num_seqs": 32, **SCHEDULES[schedule]})
    for prompt, ours, theirs in zip(prompts, outputs, four_beams, strict=True):
        assert_same_or_tie(smollm2_peer, prompt, ours, theirs)
    counters = engine.inspect().counters
    assert counters.forked_sequences > 50
    if "preempted" in schedule:
        assert counters.num_preemptions >= 3


@pytest.mark.parametrize("search", quick_first(SEARCHES, 2))
def test_beams_are_those_of_transformers_with_every_option(search, smollm2, smollm2_peer, prompts):
    options, some = SEARCHES[search], prompts[:4]
    # Full stops and commas end a text, so texts end early and at different lengths. Then the
    # options matter.
    stops = [smollm2.tokenizer.encode(mark)[0] for mark in ".,"]
    params = SamplingParams(n=options["beam_width"], max_tokens=8, stop_token_ids=stops, **options)
    outputs, _ = run(smollm2, some, params, max_num_seqs=64)
    eos_token_ids = smollm2.tokenizer.eos_token_ids.union(stops)
    for prompt, ours in zip(some, outputs, strict=True):
        theirs = beams_of_transformers(
            smollm2_peer, prompt, eos_token_ids, max_new_tokens=8, **options
        )
        assert_same_or_tie(smollm2_peer, prompt, ours, theirs)
    assert len({len(tokens) for ours in outputs for tokens in ours}) > 1
    without = SamplingParams(n=params.n, beam_width=params.n, max_tokens=8, stop_token_ids=stops)
    assert search == "six beams" or run(smollm2, some, without, max_num_seqs=64)[0] != outputs, (
        "the options have an effect"
    )


def test_four_samples_are_the_same_alone_and_beside_fifteen_other_requests(smollm2, prompts):
    params = SamplingParams(n=4, seed=7, temperature=1.0, max_tokens=7, ignore_eos=True)
    (alone,), _ = run(smollm2, prompts[:1], params)
    assert len({tuple(tokens) for tokens in alone}) == 4
    assert len({tokens[0] for tokens in alone}) > 1, "the first tokens are drawn independently, too"
    others = (prompts[1:] * 4)[:15]
    crowds = {"max_num_seqs": 32}, {"max_num_batched_tokens": 16, "num_gpu_blocks_override": 24}
    for options in crowds:
        # Last in the queue, so it meets a full batch, hits and evictions.
        outputs, _ = run(smollm2, [*others, prompts[0]], params, **options)
        assert outputs[-1] == alone, options


def test_each_sample_is_what_it_would_be_among_fewer(smollm2, prompts):
    params = SamplingParams(n=4, seed=7, temperature=1.0, max_tokens=MAX_TOKENS, ignore_eos=True)
    four, _ = run(smollm2, prompts[1:3], params)
    two, _ = run(
        smollm2, prompts[1:3], dataclasses.replace(params, n=2), enable_prefix_caching=False
    )
    assert [outputs[:2] for outputs in four] == two
