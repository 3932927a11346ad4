"""`minivllm compare` finds latencies in events: who waited, for how long and for which tokens."""

import pytest
from support.engine.engine_fakes import WatchedEngine

from minivllm.lab.compare.measure import measure_latencies


def test_a_long_prompt_delays_others_only_without_chunked_prefill():
    # Whole, it makes one gap each for ada and ben: the prompt plus a token for each of them.
    for options, longest in (
        ({"max_num_batched_tokens": 8}, [8, 8]),
        ({"max_num_batched_tokens": 64, "enable_chunked_prefill": False}, [52, 52]),
    ):
        engine = WatchedEngine(max_model_len=64, enable_prefix_caching=False, **options)
        engine.add("ada", [1, 2, 3], max_tokens=20)
        engine.add("ben", [4, 5], max_tokens=20)
        for _ in range(4):
            engine.step()
        engine.add("long", [9] * 50, max_tokens=3)
        engine.run()
        assert sorted(measure_latencies(engine.events).tokens_between_tokens)[-2:] == longest


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
