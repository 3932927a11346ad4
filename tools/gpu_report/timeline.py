"""Reduces torch's profile of engine steps to a few numbers and a timeline to draw.

The input is the events of a Chrome trace, in microseconds. Results are in seconds, except in the
timeline. A device is busy while at least one kernel (or copy) runs. The host's time divides into
CUDA functions and Python. Synchronizations and copies to host memory count as waiting, because they
return only when all earlier work of the device is done.
"""

from collections import Counter
from itertools import pairwise
from typing import Any, NamedTuple

ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
IN_CUDA_API = frozenset({"cuda_runtime", "cuda_driver"})
PHASES = ("step", "schedule", "prepare", "model", "sample")
"""Names of the ranges around the parts of a step; `step` contains all other ranges. The work after
`sample` (outputs and events) has no range, because ranges around its many calls would be slow."""
MERGED_BELOW = 1 / 1000
"""Neighbours on a timeline are joined if the gap is shorter than this share of the step."""


class Interval(NamedTuple):
    """start, end: microseconds"""

    start: float
    end: float
    name: str


def intervals_of(trace_events: list[dict[str, Any]], categories: frozenset[str]) -> list[Interval]:
    return sorted(
        Interval(event["ts"], event["ts"] + event["dur"], event["name"])
        for event in trace_events
        if event.get("ph") == "X" and event.get("cat") in categories
    )


def cuda_api_of(trace_events: list[dict[str, Any]]) -> list[Interval]:
    """The intervals inside CUDA functions, named `wait`, or `launch` for all other calls."""
    to_host = {
        event["args"]["correlation"]
        for event in trace_events
        if event.get("cat") == "gpu_memcpy" and "DtoH" in event["name"]
    }
    waits = [
        {**event, "name": "wait" if _waits(event, to_host) else "launch"}
        for event in trace_events
        if event.get("cat") in IN_CUDA_API
    ]
    return intervals_of(waits, IN_CUDA_API)


def _waits(event: dict[str, Any], to_host: set[int]) -> bool:
    return "Synchronize" in event["name"] or event.get("args", {}).get("correlation") in to_host


def phases_of(trace_events: list[dict[str, Any]]) -> list[Interval]:
    return [
        span
        for span in intervals_of(trace_events, frozenset({"user_annotation"}))
        if span.name in PHASES
    ]


def union_length(spans: list[Interval], within: Interval) -> float:
    """Microseconds of `within` in which at least one of `spans` runs. spans: ordered by start"""
    total, covered_to = 0.0, within.start
    for span in spans:
        start, end = max(span.start, covered_to), min(span.end, within.end)
        if end > start:
            total += end - start
            covered_to = end
    return total


def summarize_steps(trace_events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return seconds, busy seconds, launches and kernels of each step, and the top kernels."""
    device, api = intervals_of(trace_events, ON_DEVICE), intervals_of(trace_events, IN_CUDA_API)
    launches = _outermost([span for span in api if "Launch" in span.name])
    steps = [span for span in phases_of(trace_events) if span.name == "step"]
    inside = [[span for span in device if step.start <= span.start < step.end] for step in steps]
    return {
        "profiled_runs": [(step.end - step.start) / 1e6 for step in steps],
        "busy": [union_length(device, step) / 1e6 for step in steps],
        "launches": [
            sum(step.start <= span.start < step.end for span in launches) for step in steps
        ],
        "kernels": [len(kernels) for kernels in inside],
        "top_kernels": _top_kernels(inside),
    }


def _outermost(spans: list[Interval]) -> list[Interval]:
    """Drop nested intervals: for one launch, a runtime call may contain a driver call."""
    found: list[Interval] = []
    for span in spans:
        if not found or span.end > found[-1].end:
            found.append(span)
    return found


def _top_kernels(steps: list[list[Interval]], most: int = 10) -> list[dict[str, Any]]:
    seconds, numbers = Counter(), Counter()
    for span in (span for spans in steps for span in spans):
        seconds[span.name] += (span.end - span.start) / 1e6
        numbers[span.name] += 1
    return [
        {"name": name, "seconds": total / len(steps), "launches": numbers[name] / len(steps)}
        for name, total in seconds.most_common(most)
    ]


def reduced_timeline(trace_events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last profiled step for a picture: `{"on", "name", "start", "duration"}` items.

    Times are microseconds from the start of the step. "on" is `device` for kernels; it is `host`
    for the phases, and for `launch` and `wait`, which are inside CUDA's functions.
    """
    phases = phases_of(trace_events)
    step = [span for span in phases if span.name == "step"][-1]
    api = cuda_api_of(trace_events)
    kernels = [span._replace(name="kernel") for span in intervals_of(trace_events, ON_DEVICE)]
    sampled = max(
        (span.end for span in phases if span.name == "sample" and span.start >= step.start),
        default=step.end,
    )
    host = [
        span._replace(name="output") if span.name == "step" and span.start >= sampled else span
        for span in _innermost([*phases, *api], step)
    ]
    rows = {"host": host, "device": _innermost(kernels, step)}
    return [
        {
            "on": on,
            "name": span.name,
            "start": round(span.start - step.start, 1),
            "duration": round(span.end - span.start, 1),
        }
        for on, spans in rows.items()
        for span in _merged(spans, (step.end - step.start) * MERGED_BELOW)
    ]


def _innermost(spans: list[Interval], within: Interval) -> list[Interval]:
    """Flatten nested intervals: at each time, keep only the interval that started last."""
    edges = sorted(
        {
            edge
            for span in spans
            for edge in (span.start, span.end)
            if within.start <= edge <= within.end
        }
    )
    ordered, running, begun, found = sorted(spans), [], 0, []
    for start, end in pairwise(edges):
        while begun < len(ordered) and ordered[begun].start <= start:
            running.append(ordered[begun])
            begun += 1
        running = [span for span in running if span.end > start]
        if running:
            found.append(
                Interval(start, end, max(running, key=lambda span: (span.start, -span.end)).name)
            )
    return found


def _merged(spans: list[Interval], gap: float) -> list[Interval]:
    merged: list[Interval] = []
    for span in spans:
        if merged and merged[-1].name == span.name and span.start - merged[-1].end <= gap:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged
