"""Tokens that come at the same time count once."""

from collections.abc import Collection

from minivllm.lessons.sketches.latencies import RequestTimes

HINT = "A step of a batch gives one token to each sequence. How many tokens are that?"


def throughput(requests: Collection[RequestTimes]) -> float:
    tokens = {t for one in requests for times in one.token_times.values() for t in times}
    if not tokens:
        return 0.0
    return len(tokens) / (max(tokens) - min(one.arrived for one in requests))
