"""The time begins with the first token."""

from collections.abc import Collection

from minivllm.lessons.sketches.latencies import RequestTimes

HINT = "Before the first token the device has processed a prompt. Was that no work?"


def throughput(requests: Collection[RequestTimes]) -> float:
    tokens = [t for one in requests for times in one.token_times.values() for t in times]
    if not tokens:
        return 0.0
    seconds = max(tokens) - min(tokens)
    return len(tokens) / seconds if seconds else 0.0
