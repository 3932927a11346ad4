"""The README's examples as tests, for `pytest visible_test.py`."""

import json

import latencies
import pytest

ADA = latencies.RequestTimes(0.0, {"ada.0": [0.3, 0.4, 0.5, 0.7], "ada.1": [0.3, 0.4]})
BEN = latencies.RequestTimes(0.1, {"ben.0": [0.5, 0.6]})


def arrived(t, name):
    return {"ev": "request.arrived", "t": t, "request_id": name, "seq_id": f"{name}.0"}


def sampled(t, seq_id):
    return {"ev": "token.sampled", "t": t, "seq_id": seq_id}


EVENTS = [
    arrived(0.0, "ada"),
    arrived(0.1, "ben"),
    {"ev": "request.forked", "t": 0.2, "seq_id": "ada.1", "parent": "ada.0"},
    *(sampled(t, seq_id) for t in (0.3, 0.4) for seq_id in ("ada.0", "ada.1")),
    {"ev": "step.end", "t": 0.4},
    sampled(0.5, "ada.0"),
    sampled(0.5, "ben.0"),
    sampled(0.6, "ben.0"),
    sampled(0.7, "ada.0"),
]
LINES = [json.dumps(event) for event in EVENTS]


def test_times_are_read_by_request_and_sequence():
    assert latencies.read_times(LINES) == {"ada": ADA, "ben": BEN}


def test_a_request_without_tokens_is_there_too():
    assert latencies.read_times(LINES[:1]) == {"ada": latencies.RequestTimes(0.0, {"ada.0": []})}


def test_the_first_token_of_any_sample_ends_the_wait():
    assert latencies.time_to_first_token(ADA) == pytest.approx(0.3)
    assert latencies.time_to_first_token(BEN) == pytest.approx(0.4)
    assert latencies.time_to_first_token(latencies.RequestTimes(1.0, {"dan.0": []})) is None


def test_gaps_are_between_tokens_of_one_sequence():
    assert sorted(latencies.inter_token_latencies(ADA)) == pytest.approx([0.1, 0.1, 0.1, 0.2])
    assert latencies.inter_token_latencies(BEN) == pytest.approx([0.1])


def test_a_percentile_is_one_of_the_values():
    gaps = [0.1, 0.1, 0.2, 0.1, 0.1]
    assert [latencies.percentile(gaps, rank) for rank in (50, 80, 81, 99)] == [0.1, 0.1, 0.2, 0.2]
    assert latencies.percentile([], 99) is None


def test_throughput_counts_all_tokens():
    assert latencies.throughput([ADA, BEN]) == pytest.approx(8 / 0.7)
    assert latencies.throughput([latencies.RequestTimes(1.0, {"dan.0": []})]) == 0.0


def test_a_whole_recording_in_five_numbers():
    assert latencies.summarise(LINES) == pytest.approx((0.3, 0.4, 0.1, 0.2, 8 / 0.7))
