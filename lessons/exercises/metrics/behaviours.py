"""Checks for metrics: drawn event logs, single requests, and recordings of the real engine."""

import json
from itertools import accumulate
from typing import Any

from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour, nearly
from minivllm.lessons.checker.cases.traces import draw_trace, requests_with_samples, run_trace
from minivllm.lessons.shown import latencies

close = nearly(1e-6)


def _numbers(numbers: Any) -> str:
    """Sorted, because the order is open. Numbers are compared with a tolerance."""
    return "| " + " ".join(f"{number:.6f}" for number in sorted(numbers))


def _request(draw: Draw) -> Case:
    """A request as milliseconds: its time in the queue, and the waits of each of its samples.

    A wait is the time before a token: 0 if a step gave several. A sample may have no tokens. Beams
    are forked later: a sample begins after `forked_after` tokens of the one before it.
    """
    waits = lambda d: d.list_of(lambda draw: draw.integer(0, 400), 0, 5)  # noqa: E731
    return {
        "arrives": draw.integer(0, 300),
        "queued": draw.integer(1, 300),
        "samples": draw.list_of(waits, 1, 3),
        "ends": draw.choice(["request.finished", "request.aborted", ""]),
        "preempted_at": draw.integer(1, 4),
        "forked_after": draw.integer(0, 2),
    }


def _times(request: Case) -> dict[int, list[float]]:
    """The token times of each sample, in seconds."""
    begin, times = _admitted(request), {}
    for number, waits in enumerate(request["samples"]):
        begin = _forked(request, times[number - 1], begin) if number else begin
        times[number] = [begin + ms / 1000 for ms in accumulate(waits)]
    return times


def _admitted(request: Case) -> float:
    return (request["arrives"] + request["queued"]) / 1000


def _forked(request: Case, parent: list[float], begin: float) -> float:
    """When a sample begins. parent: the token times of the sample before it, which has `begin`"""
    return [begin, *parent][: request["forked_after"] + 1][-1]


def _events(requests: list[Case]) -> list[str]:
    """The log of these requests, in order of time."""
    events: list[Case] = []
    for number, request in enumerate(requests):
        name = f"user.{number}"
        admitted = _admitted(request)
        events.append(_event("request.arrived", request["arrives"] / 1000, f"{name}.0", name))
        events.append(_event("request.admitted", admitted, f"{name}.0"))
        begin, parent = admitted, []
        for sample, times in _times(request).items():
            seq_id = f"{name}.{sample}"
            if sample:
                begin = _forked(request, parent, begin)
                fork = _event("request.forked", begin, seq_id)
                events.append({**fork, "parent": f"{name}.{sample - 1}"})
            parent = times
            events += [_event("token.sampled", time, seq_id) for time in times]
            # The gap after this token is long because the sequence is preempted in it.
            events += [
                _event("request.preempted", time, seq_id)
                for time in times[:-1][request["preempted_at"] - 1 :][:1]
            ]
            if request["ends"]:
                events.append(_event(request["ends"], times[-1] if times else admitted, seq_id))
    events.sort(key=lambda event: event["t"])
    return [json.dumps({**event, "seq": at, "step": 1}) for at, event in enumerate(events)]


def _event(kind: str, t: float, seq_id: str, request_id: str = "") -> Case:
    event = {"ev": kind, "t": t, "seq_id": seq_id}
    return {**event, "request_id": request_id} if request_id else event


def _given(request: Case) -> Any:
    tokens = {f"r.{number}": times for number, times in _times(request).items()}
    return latencies.RequestTimes(request["arrives"] / 1000, tokens)


def _told(request: Any) -> str:
    return f"arrived {request.arrived}, token times {request.token_times}"


@behaviour(task=1, cases=lambda draw: {"requests": draw.list_of(_request, 1, 4)})
def reads(case: Case) -> Lines:
    """the times of each request and sequence are read from the log

    Find the first request that differs. Which of its events was lost, or is one too many?
    """
    lines = _events(case["requests"])
    yield from lines
    found = latencies.read_times(iter(lines))
    for name in sorted(found):
        times = found[name]
        tokens = {seq_id: list(times.token_times[seq_id]) for seq_id in sorted(times.token_times)}
        yield f"{name} arrived at {times.arrived}, token times {tokens}"


@behaviour(task=2, cases=_request, agree=close)
def first_tokens(case: Case) -> Lines:
    """the time to first token is that of the user

    The user waits from the arrival to the first word. Which times are these?
    """
    request = _given(case)
    ttft = latencies.time_to_first_token(request)
    yield f"{_told(request)}: {'None' if ttft is None else _numbers([ttft])}"


@behaviour(task=3, cases=_request, agree=close)
def gaps(case: Case) -> Lines:
    """a gap is between two neighbouring tokens of one sequence

    How many gaps are between four tokens? And whose tokens are they?
    """
    request = _given(case)
    yield f"{_told(request)}: gaps {_numbers(latencies.inter_token_latencies(request))}"


def _values(draw: Draw) -> Case:
    """Also 25 values and percents whose float of a rank is a little above a whole number."""
    length = draw.choice([12, 12, 12, 25])
    return {
        "values": draw.list_of(lambda d: d.integer(1, 999), 25 if length == 25 else 0, length),
        "percent": draw.choice([50, 99, 100, 1, 90, 75, 20, 95, 28, 56]),
    }


@behaviour(task=4, cases=_values, examples=100, agree=close)
def percentiles(case: Case) -> Lines:
    """a percentile is the value at its rank

    Sort the values. How many of them are at or below your result, in percent?
    """
    given = list(case["values"])
    value = latencies.percentile(given, case["percent"])
    told = "None" if value is None else _numbers([value])
    changed = "" if given == case["values"] else " (and the caller's list is in another order now)"
    yield f"p{case['percent']} of {case['values']}: {told}{changed}"


@behaviour(task=5, cases=lambda draw: {"requests": draw.list_of(_request, 0, 3)}, agree=close)
def throughputs(case: Case) -> Lines:
    """throughput is all tokens over all of the time

    When does the time begin, and when does it end? How many tokens were sampled in it?
    """
    requests = [_given(request) for request in case["requests"]]
    told = " and ".join(map(_told, requests)) or "no requests"
    yield f"{told}: tokens per second {_numbers([latencies.throughput(requests)])}"


def _run(draw: Draw) -> Case:
    """A run of the engine, and how many milliseconds each of its steps took."""
    trace = draw_trace(draw, requests_with_samples)
    return {**trace, "steps_ms": draw.list_of(lambda d: d.integer(1, 90), 1, 5)}


def _recorded(case: Case) -> Lines:
    """The events of the run, with the times of steps that take as long as the case says.

    The virtual clock of the checks has equal steps. What is sampled comes at the end of a step.
    """
    case = dict(case)
    lengths = case.pop("steps_ms")
    ends = [0]
    for line in run_trace(case):
        if not line.startswith("{"):
            continue  # the run did not end in time
        event = json.loads(line)
        step = event["step"]
        while len(ends) <= step:
            ends.append(ends[-1] + lengths[len(ends) % len(lengths)])
        at_end = event["ev"] in ("token.sampled", "request.arrived", "step.end")
        yield json.dumps({**event, "t": ends[step if at_end else max(step - 1, 0)] / 1000})


@behaviour(task=5, cases=_run, examples=25, agree=close)
def recordings(case: Case) -> Lines:
    """recordings of the engine give the right five numbers

    Print what read_times returns for the recording. Then check the numbers one by one, from left to
    right.
    """
    found = latencies.summarise(_recorded(case))
    for name, value in found._asdict().items():
        yield f"{case}: {name} {'None' if value is None else _numbers([value])}"
