"""The throughput is the sum of the requests' own tokens per second."""

from collections.abc import Collection

from minivllm.lessons.sketches import latencies as right

HINT = "Two users are served one after the other, each with 10 tokens per second. Is that 20?"

_right = right.throughput


def throughput(requests: Collection[right.RequestTimes]) -> float:
    return float(sum(_right([one]) for one in requests))
