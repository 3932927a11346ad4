"""The inter-token latency of a sequence is the mean of its gaps."""

from minivllm.lessons.sketches.latencies import RequestTimes

HINT = "Nine gaps of 10 ms and one pause of two seconds: which number should p99 show?"


def inter_token_latencies(request: RequestTimes) -> list[float]:
    return [
        (times[-1] - times[0]) / (len(times) - 1)
        for times in request.token_times.values()
        if len(times) > 1
    ]
