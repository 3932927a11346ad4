"""Latencies from events, and how long prompts delay other requests, counted in tokens."""

import pytest
from support.engine.engine_fakes import WatchedEngine, expected_output

from minivllm.lab.compare.latency import measure_latencies


def with_a_long_prompt(**options: object) -> WatchedEngine:
    """Two decoding requests, and after a few steps a prompt of 50 tokens."""
    engine = WatchedEngine(max_model_len=64, enable_prefix_caching=False, **options)
    prompts = {"ada": [1, 2, 3], "ben": [4, 5]}
    for name, prompt in prompts.items():
        engine.add(name, prompt, max_tokens=20)
    for _ in range(4):
        engine.step()
    engine.add("long", [9] * 50, max_tokens=3)
    outputs = engine.run()
    for name, prompt in prompts.items():
        assert outputs[name].outputs[0].token_ids == expected_output(prompt, 20)
    assert outputs["long"].outputs[0].token_ids == expected_output([9] * 50, 3)
    return engine


class TestTailLatency:
    def test_with_chunked_prefill_a_long_prompt_delays_no_other_request(self):
        engine = with_a_long_prompt(max_num_batched_tokens=8)
        assert max(measure_latencies(engine.events).tokens_between_tokens) <= 8

    def test_without_chunked_prefill_a_long_prompt_delays_every_request(self):
        engine = with_a_long_prompt(max_num_batched_tokens=64, enable_chunked_prefill=False)
        gaps = measure_latencies(engine.events).tokens_between_tokens
        # One gap each for ada and ben: the whole prompt plus a token for each of them.
        assert sorted(gaps)[-2:] == [52, 52]
        assert sorted(gaps)[-3] <= 3


def test_a_preemption_is_a_wait_between_two_tokens():
    engine = WatchedEngine(num_blocks=8, enable_prefix_caching=False)
    for name in "ab":
        engine.add(name, [1] * 9, max_tokens=14)
    engine.run()
    assert engine.fold.counters.num_preemptions > 0
    waits = measure_latencies(engine.events).between_tokens
    # A step takes 0.01 s on the virtual clock.
    assert max(waits) > 0.05 and min(waits) == pytest.approx(0.01)


def test_samples_and_beams_are_followed_from_token_to_token():
    engine = WatchedEngine()
    engine.add("samples", [1] * 100, max_tokens=4, n=3)  # 64 tokens fit into a step
    engine.run()
    latencies = measure_latencies(engine.events)
    assert latencies.time_to_first_token == pytest.approx([0.01])
    assert latencies.between_tokens == pytest.approx([0.01] * 3 * 3)
    engine.add("beams", [2] * 5, max_tokens=6, n=2, use_beam_search=True, ignore_eos=True)
    engine.run()
    assert set(measure_latencies(engine.events).tokens_between_tokens[9:]) == {2}
