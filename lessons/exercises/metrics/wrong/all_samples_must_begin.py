"""The wait is over when each sample has a token."""

from minivllm.lessons.sketches.latencies import RequestTimes

HINT = "Two samples begin at different times. When does the first word appear on the screen?"


def time_to_first_token(request: RequestTimes) -> float | None:
    first = [times[0] for times in request.token_times.values() if times]
    return max(first) - request.arrived if first else None
