"""`minivllm compare` finds latencies in events: who waited, and for how long."""

import pytest
from support.engine.engine_fakes import WatchedEngine

from minivllm.lab.compare.measure import measure_latencies


def test_samples_and_beams_are_followed_from_token_to_token():
    engine = WatchedEngine()
    engine.add("samples", [1] * 100, max_tokens=4, n=3)  # 64 tokens fit into a step
    engine.run()
    latencies = measure_latencies(engine.events)
    assert latencies.time_to_first_token == pytest.approx([0.01])
    assert latencies.between_tokens == pytest.approx([0.01] * 3 * 3)
    engine.add("beams", [2] * 5, max_tokens=6, n=2, use_beam_search=True, ignore_eos=True)
    engine.run()
    assert measure_latencies(engine.events).between_tokens[9:] == pytest.approx([0.01] * 2 * 4)
