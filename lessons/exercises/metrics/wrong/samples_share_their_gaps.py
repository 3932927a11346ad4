"""The tokens of all samples are one stream."""

from itertools import pairwise

from minivllm.lessons.sketches.latencies import RequestTimes

HINT = "Two samples get a token at the same time. Is the gap between these two tokens 0?"


def inter_token_latencies(request: RequestTimes) -> list[float]:
    times = sorted(one for times in request.token_times.values() for one in times)
    return [later - earlier for earlier, later in pairwise(times)]
