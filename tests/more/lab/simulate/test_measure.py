"""The answers of a simulation, against numpy and calculations by hand."""

import pytest
from support.engine.simulated_crowds import STEP, run

from minivllm.lab.simulate.arrivals import Arrival
from minivllm.lab.simulate.measure import latencies, summarise


def test_one_request_alone_has_the_times_computed_by_hand():
    # 100 prompt tokens at 64 a step: two steps to the first token, then one each.
    answer = summarise(run([Arrival(2.0, 100, 4)]), {})
    assert answer["p50_ttft_ms"] == pytest.approx(2000 * STEP)
    assert answer["p50_itl_ms"] == answer["p50_tpot_ms"] == pytest.approx(1000 * STEP)
    assert answer["p99.9_e2el_ms"] == pytest.approx(5000 * STEP)
    assert answer["p50_queue_ms"] == 0
    assert answer["steps"] == 5 and answer["duration"] == pytest.approx(5 * STEP)
    # 4 blocks in the first step, 7 for the 100 tokens and the three after them.
    assert answer["kv_use_peak"] == 7 / 64
    assert answer["kv_use_mean"] == pytest.approx((4 + 4 * 7) / 5 / 64)
    assert answer["running_mean"] == 1 and answer["replica_imbalance"] == 1


def test_a_prompt_that_is_computed_elsewhere_waits_for_its_bytes_over_the_bandwidth():
    # Two steps on P; six blocks of 737,280 bytes take two steps; one more for the other 4 tokens.
    apart = (1, 1, 6 * 737_280 / (2 * STEP) / 1e9)
    answer = summarise(run([Arrival(2.0, 100, 4)], apart=apart), {})
    assert answer["p50_ttft_ms"] == pytest.approx(5000 * STEP, abs=1)  # idle steps take 1 ms
    assert answer["p50_itl_ms"] == pytest.approx(1000 * STEP)
    assert (answer["p50_queue_ms"], answer["total_output_tokens"]) == (0, 4)


def test_goodput_counts_the_requests_that_meet_every_target():
    # Four slots: the fifth request waits for a free one.
    replicas = run([Arrival(0.0, 8, 10) for _ in range(5)])
    ttft = sorted(1000 * latencies(replicas)["ttft"])
    assert ttft == [1000 * STEP] * 4 + [11_000 * STEP]
    met = summarise(replicas, {"ttft": 2000 * STEP, "tpot": 1000 * STEP})
    assert met["goodput_share"] == 0.8
    assert met["request_goodput"] == pytest.approx(4 / (20 * STEP))
    assert summarise(replicas, {"ttft": 2000 * STEP, "e2el": 9999 * STEP})["goodput_share"] == 0
    # An answer of one token has no gaps, and meets any target for them.
    answer = summarise(run([Arrival(0.0, 8, 1)]), {"tpot": 0.001})
    assert answer["p50_itl_ms"] is answer["mean_itl_ms"] is None and answer["goodput_share"] == 1
