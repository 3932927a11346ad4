"""The time of the log begins at 0."""

from collections.abc import Collection

from minivllm.lessons.sketches.latencies import RequestTimes

HINT = "A server may run for a week before the first request. What would this week do here?"


def throughput(requests: Collection[RequestTimes]) -> float:
    tokens = [t for one in requests for times in one.token_times.values() for t in times]
    return len(tokens) / max(tokens) if tokens else 0.0
