"""The time to first token is the time at which the first token comes."""

from minivllm.lessons.sketches.latencies import RequestTimes

HINT = "A request arrives at 3.0, and its first token comes at 3.2. How long has its user waited?"


def time_to_first_token(request: RequestTimes) -> float | None:
    first = [times[0] for times in request.token_times.values() if times]
    return min(first) if first else None
