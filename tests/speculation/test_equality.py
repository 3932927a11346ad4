"""With drafts and without: the same tokens, whatever the sampling, the pool and the proposer.

The tokens of tiny random models are a hard case: no token is much more likely than others.
"""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.engine.sampled_traffic import REQUESTS, STEM, pool_for, speculative, tokens_of
from support.model.needs import cpu_ops

from minivllm.outputs import CompletionOutput

ALL_THAT_HAPPENS = {
    "requests": [
        (STEM, {"n": 4, "temperature": 0.7, "max_tokens": 24, "ignore_eos": True}, 0),
        *[
            ([*STEM, 50 + i], {"n": 1, "temperature": 0.0, "max_tokens": 40, "ignore_eos": True}, i)
            for i in range(4)
        ],
    ],
    "speculation": {"method": "draft_model", "model": "tiny-random", "num_speculative_tokens": 4},
    "num_spare_blocks": -4,  # the samples of the largest request share their prompt
    "budget": 32,
    "caching": True,
    "wrong_every": 3,
}
"""Traffic with preemptions, copies, prefix hits, accepted drafts and rejected ones, whatever
hypothesis draws.
"""


@pytest.mark.parametrize("number", [8, pytest.param(200, marks=pytest.mark.slow)])
def test_random_traffic_gives_the_same_tokens_with_drafts_and_without(tiny, number: int) -> None:
    totals = []

    @settings(max_examples=number, derandomize=True, database=None)
    @example(**ALL_THAT_HAPPENS)
    @given(
        requests=REQUESTS,
        speculation=speculative(),
        num_spare_blocks=st.integers(0, 6),
        budget=st.integers(8, 64),
        caching=st.booleans(),
        wrong_every=st.sampled_from([0, 2, 3, 7]),
    )
    def check(requests, speculation, num_spare_blocks, budget, caching, wrong_every) -> None:
        """wrong_every: see `tokens_of`"""
        options = pool_for(requests, num_spare_blocks)
        options |= {"max_num_batched_tokens": budget, "enable_prefix_caching": caching}
        plain, _ = tokens_of(tiny, requests, **options)
        has_model = speculation["method"] == "draft_model"  # the model itself
        options["speculative_config"] = speculation
        drafted, counters = tokens_of(tiny, requests, wrong_every * has_model, **options)
        assert drafted == plain
        if has_model and not wrong_every:
            accepted = counters.spec_decode_num_accepted_tokens
            assert accepted == counters.spec_decode_num_draft_tokens
        totals.append(counters)

    check()
    happened = totals[0]  # in the traffic that is the same in every run
    assert happened.num_preemptions and happened.copied_blocks
    assert happened.prefix_cache_hits
    assert 0 < happened.spec_decode_num_accepted_tokens < happened.spec_decode_num_draft_tokens


@pytest.mark.parametrize(("kv_cache_dtype", "limit"), [("auto", 1e-5), ("int8", 0.0)])
def test_a_draft_changes_a_token_only_where_two_logits_tie(tiny, kv_cache_dtype, limit) -> None:
    """A bias makes the two best tokens of each position tie. With int8, drafts change no bit."""
    cpu_ops()
    options = {"attention_backend": "cpu", "kv_cache_dtype": kv_cache_dtype}
    options |= {"num_gpu_blocks_override": 40, "kept": lambda tokens: tokens}
    drafts = {"method": "draft_model", "model": "tiny-random", "num_speculative_tokens": 4}

    def run(*biases: dict[int, float] | None) -> list[tuple[CompletionOutput, CompletionOutput]]:
        """Without drafts and with them."""
        sampling = {"temperature": 0, "max_tokens": 12, "logprobs": 9}
        requests = [(STEM, sampling | {"logit_bias": bias}, 0) for bias in biases]
        plain, _ = tokens_of(tiny, requests, **options)
        drafted, counters = tokens_of(tiny, requests, **options, speculative_config=drafts)
        assert counters.spec_decode_num_accepted_tokens > len(biases)
        return [(*plain[f"r{i}"], *drafted[f"r{i}"]) for i in range(len(biases))]

    ((plain, drafted),) = run(None)
    assert plain.token_ids == drafted.token_ids
    biases = []
    for rows in zip(plain.logprobs, drafted.logprobs, strict=True):
        first, second = sorted(rows[0], key=lambda token: rows[0][token].rank)[:2]
        gaps = [row[first].logprob - row[second].logprob for row in rows]
        assert abs(gaps[0] - gaps[1]) <= limit
        biases.append({second: sum(gaps) / 2})
    for bias, outputs in zip(biases, run(*biases), strict=True):
        tokens = zip(*(output.token_ids for output in outputs), strict=False)
        for position, (first, second) in enumerate(tokens):
            if first != second:
                for row in (output.logprobs[position] for output in outputs):
                    logits = [
                        row[token].logprob + bias.get(token, 0.0) for token in (first, second)
                    ]
                    assert abs(logits[0] - logits[1]) <= limit
                break
