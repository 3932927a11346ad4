"""The throughput is the sum of the requests' own tokens per second."""

from collections.abc import Iterable

from minivllm.lessons.sketches import latencies as right

HINT = "Two users are served one after the other, each with 10 tokens per second. Is that 20?"

_right = right.throughput


def throughput(requests: Iterable[right.RequestTimes]) -> float:
    return float(sum(_right([one]) for one in requests))
