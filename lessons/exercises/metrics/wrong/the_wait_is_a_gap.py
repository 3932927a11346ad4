"""Every token has a gap before it, also the first one."""

from minivllm.lessons.sketches.latencies import RequestTimes

HINT = "Four tokens have how many gaps between them? The time before the first has its own name."


def inter_token_latencies(request: RequestTimes) -> list[float]:
    return [
        later - earlier
        for times in request.token_times.values()
        for earlier, later in zip([request.arrived, *times], times, strict=False)
    ]
