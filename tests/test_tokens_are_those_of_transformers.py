"""The promise: scheduling changes when a token is computed, never which token.

A model in float32 must write exactly what `transformers.generate` writes from the same weights, for
any batch, chunk, block size and pool of blocks, with prefix hits, with forks and after preemptions.
Where a token differs, the two logits must tie within rounding. Sampled tokens, which transformers
draws in another way, must be the same under every schedule, and drafts must change none of them.

The model here is the one in the package, with 2 million parameters. `tests/more/identity` runs the
same tests on SmolLM2.
"""

import dataclasses
from collections.abc import Callable
from functools import cache

import pytest
from support.engine.identity_prompts import prompts_for
from support.engine.identity_runs import (
    SCHEDULES,
    TIE,
    assert_same_or_tie,
    base_of,
    generate,
    logprobs_of,
    outputs_of,
    peer_of,
    run,
)
from transformers import PreTrainedModel

from minivllm.runtime.loader import LoadedModel, load_model
from minivllm.sampling_params import SamplingParams

MAX_TOKENS = 14
SMALL_POOL = "a pool so small that sequences are preempted"


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    """The model in our own decoder."""
    return load_model(base_of("house"))


@pytest.fixture(scope="module")
def peer() -> PreTrainedModel:
    """The same weights in transformers."""
    return peer_of("house")


@pytest.fixture(scope="module")
def prompts(model) -> list[list[int]]:
    """Chat, prose, code and other scripts, of 1 to 1,000 tokens; some share a prefix."""
    return prompts_for(model.tokenizer)


@pytest.fixture(scope="module")
def expected(peer) -> Callable[[tuple[int, ...]], list[int]]:
    """The greedy tokens of transformers after a prompt."""
    return cache(lambda prompt: generate(peer, list(prompt), max_new_tokens=MAX_TOKENS)[0])


# ---- greedy tokens ----


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_greedy_tokens_are_those_of_transformers_under_every_schedule(
    schedule, model, peer, prompts, expected
):
    if schedule == SMALL_POOL:  # it cannot hold the long prompts
        prompts = 2 * [prompt for prompt in prompts if len(prompt) < 100]
    params = SamplingParams(temperature=0, max_tokens=MAX_TOKENS)
    outputs, engine = run(model, prompts, params, **SCHEDULES[schedule])
    for prompt, (ours,) in zip(prompts, outputs, strict=True):
        assert_same_or_tie(peer, prompt, ours, expected(tuple(prompt)))
    counters = engine.inspect().counters
    if schedule == SMALL_POOL:
        assert counters.num_preemptions >= 3
    if schedule == "batched":
        assert counters.prefix_cache_hits >= 0.6 * len(prompts[-2]), "shared by the long prompts"


def test_greedy_tokens_are_those_of_transformers_with_the_other_linear_backend(
    model, peer, prompts, expected
):
    other = load_model(base_of(model.name, linear_backend="torch"))
    params = SamplingParams(temperature=0, max_tokens=MAX_TOKENS)
    outputs, _ = run(other, prompts[:2], params, **SCHEDULES["chunks of 16"])
    for prompt, (ours,) in zip(prompts, outputs, strict=False):
        assert_same_or_tie(peer, prompt, ours, expected(tuple(prompt)))


@pytest.mark.parametrize("schedule", ["batched", "chunks of 16", SMALL_POOL])
def test_log_probabilities_of_prompts_are_those_of_transformers(schedule, model, peer, prompts):
    short = [prompt for prompt in prompts if len(prompt) < 100]
    params = SamplingParams(temperature=0, max_tokens=MAX_TOKENS, prompt_logprobs=2)
    outputs, _ = outputs_of(model, short, params, **SCHEDULES[schedule])
    for prompt, output in zip(short, outputs, strict=True):
        assert output.prompt_logprobs[0] is None and len(output.prompt_logprobs) == len(prompt)
        expected = logprobs_of(peer, prompt)
        for position, found in enumerate(output.prompt_logprobs[1:], 1):
            assert next(iter(found)) == prompt[position] and 2 <= len(found) <= 3
            assert min(entry.rank for entry in found.values()) == 1
            theirs = [expected[position - 1, token_id].item() for token_id in found]
            assert [entry.logprob for entry in found.values()] == pytest.approx(theirs, abs=1e-3)


# ---- beams ----

SEARCHES = {
    "four beams": {"beam_width": 4},
    "early stopping": {"beam_width": 4, "early_stopping": True},
    "short texts favoured": {"beam_width": 4, "length_penalty": -2.0},
    "never early": {"beam_width": 3, "early_stopping": "never", "length_penalty": 3.0},
}
SCHEDULES_OF_BEAMS = {
    "all at once": {},
    "chunks of 16": {"max_num_batched_tokens": 16},
    "beams are preempted": {"num_gpu_blocks_override": 22},
    "one search at a time": {"max_num_seqs": 6},
    "blocks of 1": {"block_size": 1, "num_gpu_blocks_override": 4096},
    "without prefix caching": {"enable_prefix_caching": False},
}


@pytest.mark.parametrize("search", SEARCHES)
def test_beams_are_those_of_transformers_in_order_under_every_schedule(
    search, model, peer, prompts
):
    options, some = SEARCHES[search], [*prompts[2:7], prompts[2]]
    width = options["beam_width"]
    # Full stops and commas end a text, too, so that texts have different lengths. Then the options
    # of a search matter.
    stops = {model.tokenizer.encode(mark)[0] for mark in ".,"}
    params = SamplingParams(n=width, max_tokens=MAX_TOKENS, stop_token_ids=[*stops], **options)
    ends = model.tokenizer.eos_token_ids | stops
    theirs = [
        generate(
            peer, prompt, max_new_tokens=MAX_TOKENS, eos_token_id=sorted(ends),
            num_beams=width, num_return_sequences=width,
            **{name: options[name] for name in options if name != "beam_width"},
        )
        for prompt in some
    ]  # fmt: skip
    for name, schedule in SCHEDULES_OF_BEAMS.items():
        if search != "four beams" and name not in ("all at once", "beams are preempted"):
            continue  # the options of a search do not depend on the schedule
        outputs, engine = run(model, some, params, **{"max_num_seqs": 32, **schedule})
        assert len({len(tokens) for ours in outputs for tokens in ours}) > 1
        for prompt, ours, others in zip(some, outputs, theirs, strict=True):
            for mine, other in zip(ours, others, strict=True):
                other = to_the_end(other, ends)
                gap = mine != other and logprob(peer, prompt, mine) - logprob(peer, prompt, other)
                assert abs(gap) < 10 * TIE, f"{name}: {mine} instead of {other}"
        assert engine.inspect().counters.forked_sequences > 20
        assert engine.inspect().counters.num_preemptions > 0 or name != "beams are preempted"


def logprob(peer: PreTrainedModel, prompt: list[int], text: list[int]) -> float:
    rows = logprobs_of(peer, prompt + text)[len(prompt) - 1 :]
    return sum(float(rows[i, token_id]) for i, token_id in enumerate(text))


def to_the_end(tokens: list[int], ends: frozenset[int]) -> list[int]:
    """Cut the padding behind a text."""
    return tokens[: min([i for i, token in enumerate(tokens, 1) if token in ends], default=None)]


# ---- samples ----

SAMPLED = SamplingParams(temperature=0.9, top_p=0.95, top_k=50, seed=7, max_tokens=MAX_TOKENS,
                         ignore_eos=True)  # fmt: skip


def test_seeded_samples_are_the_same_under_every_schedule(model, prompts):
    short = [prompt for prompt in prompts if len(prompt) < 100]
    alone, _ = run(model, short, SAMPLED, **SCHEDULES["alone"])
    assert len({tuple(tokens) for (tokens,) in alone}) > 4, "samples must depend on the prompt"
    for name in SCHEDULES.keys() - {"alone"}:
        outputs, engine = run(model, short, SAMPLED, **SCHEDULES[name])
        assert outputs == alone, name
        assert engine.inspect().counters.num_preemptions >= 2 or name != SMALL_POOL


def test_four_samples_are_the_same_alone_and_beside_many_other_requests(model, prompts):
    params = dataclasses.replace(SAMPLED, n=4)
    (alone,), _ = run(model, prompts[2:3], params)
    assert len({tuple(tokens) for tokens in alone}) == 4
    others = prompts[3:18]
    for schedule in (
        {"max_num_seqs": 32},
        {"max_num_batched_tokens": 16, "num_gpu_blocks_override": 24},
    ):
        # Last in the queue, so it meets a full batch, hits and evictions.
        outputs, _ = run(model, [*others, prompts[2]], params, **schedule)
        assert outputs[-1] == alone, schedule
    (two,), _ = run(model, prompts[2:3], dataclasses.replace(params, n=2))
    assert two == alone[:2], "a sample does not depend on how many there are"


def test_another_seed_gives_other_tokens_and_no_seed_means_the_seed_of_the_engine(model, prompts):
    one, again, two, none, none_again = (
        run(model, prompts[:3], dataclasses.replace(SAMPLED, seed=seed))[0]
        for seed in (1, 1, 2, None, None)
    )
    assert one == again != two and none == none_again


# ---- drafts ----


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("method", ["ngram", "draft_model"])
def test_drafts_change_no_token(method, temperature, model, prompts):
    short = [prompt for prompt in prompts if len(prompt) < 100]
    params = dataclasses.replace(SAMPLED, temperature=temperature, max_tokens=24)
    lookup = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2}
    itself = {"method": "draft_model", "num_speculative_tokens": 3, "model": model.name}
    plain, _ = run(model, short, params)
    drafts = {"ngram": lookup, "draft_model": itself}[method]
    drafted, engine = run(model, short, params, speculative_config=drafts)
    assert drafted == plain
    counters = engine.inspect().counters
    assert counters.spec_decode_num_drafts > 10
    if method == "draft_model":
        accepted = counters.spec_decode_num_accepted_tokens
        assert accepted == counters.spec_decode_num_draft_tokens, "it drafts for itself"
