"""The report of `minivllm bench step`: a table of parts, and two ratios that have goals.

    over the floor      time of a decode step, divided by the time that this machine needs to read
                        the weights once; the goal is for a step with one sequence
    outside the model   share of the step's time in schedule, prepare, sample, detokenize, outputs
                        and the loop

Watching makes a step longer, mostly in the layers. So shares are relative to a plain step's time.
"""

import statistics
from dataclasses import dataclass, field
from typing import Any

from minivllm.lab.bench.step.parts import LINEAR_PARTS, MODEL_PARTS, OUTSIDE_PARTS


@dataclass(slots=True)
class MeasuredSteps:
    """Times of one kind of step, in seconds, one per step."""

    plain: list[float] = field(default_factory=list)
    watched: list[dict[str, float]] = field(default_factory=list)
    """For each watched step: part -> seconds."""


def describe_times(times: MeasuredSteps) -> dict[str, Any]:
    """Return medians over the steps, and shares of the plain step."""
    parts = {
        name: statistics.median(step.get(name, 0.0) for step in times.watched)
        for name in (*MODEL_PARTS, *OUTSIDE_PARTS)
    }
    seconds = statistics.median(times.plain)
    watched = statistics.median(sum(step.values()) for step in times.watched)
    return {
        "seconds": seconds,
        "parts": parts,
        "watching": watched / seconds - 1,
        "outside_model": sum(parts[name] for name in OUTSIDE_PARTS) / seconds,
        "linear": sum(parts[name] for name in LINEAR_PARTS) / seconds,
    }


def table(result: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    results = result["results"]
    columns = ("part", *(_name(measured) for measured in results))
    rows = [
        (name, *(_cell(measured["parts"][name], measured) for measured in results))
        for name in (*MODEL_PARTS, *OUTSIDE_PARTS)
    ]
    rows.append(("step", *(f"{measured['seconds'] * 1e3:.2f}" for measured in results)))
    return columns, rows


def notes(result: dict[str, Any]) -> list[str]:
    speed, floor = result["machine_speed"], result["read_weights_s"]
    lines = [
        f"This machine reads {speed['read_gb_per_s']:.1f} GB/s and multiplies at"
        f" {speed['gemm_gflop_per_s']:.0f} GFLOP/s; reading the weights"
        f" ({result['weight_bytes'] / 1e6:.0f} MB) once takes {floor * 1e3:.1f} ms."
    ]
    for measured in result["results"]:
        over = ""
        if measured["kind"] == "decode":
            over = f"{measured['seconds'] / floor:.2f} times reading the weights, "
        lines.append(
            f"{_name(measured)}: {over}linear layers {measured['linear']:.0%}, outside of the model"
            f" {measured['outside_model']:.1%} of the step; watched it takes"
            f" {measured['watching']:+.1%}."
        )
    return lines


def _name(measured: dict[str, Any]) -> str:
    return f"{measured['kind']} {measured.get('batch_size') or measured['num_tokens']}"


def _cell(seconds: float, measured: dict[str, Any]) -> str:
    return f"{seconds * 1e3:.2f} {seconds / measured['seconds']:4.0%}"
