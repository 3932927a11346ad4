"""Latencies and throughput from a recording: one JSON object a line, one line for each event.

    {"ev": "request.arrived", "t": 0.0,  "request_id": "ada", "seq_id": "ada.0", ...}
    {"ev": "request.forked",  "t": 0.25, "seq_id": "ada.1", "parent": "ada.0", ...}
    {"ev": "token.sampled",   "t": 0.5,  "seq_id": "ada.0", ...}

`t` is the time in seconds. A request with several samples has a sequence for each of them. All of
this module is arithmetic on times, so it works for recordings of any server.

Source: vLLM `vllm/v1/metrics/stats.py`, `vllm/benchmarks/serve.py` (TTFT, ITL, throughput).
"""

import json
from collections.abc import Collection, Iterable
from collections.abc import Sequence as Seq
from itertools import pairwise
from typing import NamedTuple


class RequestTimes(NamedTuple):
    """The times of one request, in seconds."""

    arrived: float
    token_times: dict[str, list[float]]
    """For each sequence of the request, by its `seq_id`: the times of its tokens, in order."""


class LatencySummary(NamedTuple):
    """A recording in five numbers; None where there is nothing to measure."""

    ttft_p50: float | None
    ttft_p99: float | None
    itl_p50: float | None
    itl_p99: float | None
    throughput: float


def read_times(lines: Iterable[str]) -> dict[str, RequestTimes]:
    """Return the times of all requests of a recording, by `request_id`.

    A sequence begins with its request (`request.arrived`), or as a fork of its `parent`
    (`request.forked`). It may have no tokens. All other kinds of events are skipped.
    """
    requests: dict[str, RequestTimes] = {}
    request_of: dict[str, str] = {}  # sequence -> request
    for line in lines:
        event = json.loads(line)
        match event["ev"]:
            case "request.arrived":
                request_of[event["seq_id"]] = event["request_id"]
                requests[event["request_id"]] = RequestTimes(event["t"], {event["seq_id"]: []})
            case "request.forked":
                request_of[event["seq_id"]] = request_of[event["parent"]]
                requests[request_of[event["seq_id"]]].token_times[event["seq_id"]] = []
            case "token.sampled":
                request = requests[request_of[event["seq_id"]]]
                request.token_times[event["seq_id"]].append(event["t"])
    return requests


def time_to_first_token(request: RequestTimes) -> float | None:
    """Return the seconds from the arrival to the request's first token; None without tokens."""
    first = [times[0] for times in request.token_times.values() if times]
    return min(first) - request.arrived if first else None


def inter_token_latencies(request: RequestTimes) -> list[float]:
    """Return the seconds between neighbouring tokens, for all sequences in one list."""
    return [
        later - earlier
        for times in request.token_times.values()
        for earlier, later in pairwise(times)
    ]


def percentile(values: Seq[float], percent: int) -> float | None:
    """Return the smallest value such that at least `percent` of 100 values are not above it.

    The values are in any order. This is the *nearest rank*. Returns None if there are no values.

    percent: 1 to 100
    """
    if not values:
        return None
    rank = -(-percent * len(values) // 100)  # rounded up
    return sorted(values)[rank - 1]


def throughput(requests: Collection[RequestTimes]) -> float:
    """Return the sampled tokens per second, from the first arrival to the last token.

    All tokens of all requests count. Returns 0.0 if there are none.
    """
    tokens = [t for request in requests for times in request.token_times.values() for t in times]
    if not tokens:
        return 0.0
    return len(tokens) / (max(tokens) - min(request.arrived for request in requests))


def summarise(lines: Iterable[str]) -> LatencySummary:
    """Measure a recording."""
    requests = read_times(lines).values()
    found = [time_to_first_token(request) for request in requests]
    ttfts = [seconds for seconds in found if seconds is not None]
    gaps = [gap for request in requests for gap in inter_token_latencies(request)]
    return LatencySummary(
        percentile(ttfts, 50),
        percentile(ttfts, 99),
        percentile(gaps, 50),
        percentile(gaps, 99),
        throughput(requests),
    )
