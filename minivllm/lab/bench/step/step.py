"""`minivllm bench step`: where the time of a step goes, compared with the machine's limits.

    minivllm bench step --batch-sizes 16 --trace step.json  # then open step.json in ui.perfetto.dev

The steps of one engine are measured in two ways, which take turns:

    plain      how long a step takes
    watched    how the time of a step divides into parts (`parts.py`); watching takes time, too

The table has the milliseconds of watched parts, as shares of a plain step. No decode step can be
faster than reading all weights once, which the same run measures. Decode steps start at contexts of
`--context` tokens. A prefill step has one prompt that fills the token budget. `--json` adds
`points`: single steps of many kinds (`points.py`).
"""

import argparse
import math
import statistics
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from minivllm.clock import MonotonicClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.lab import bench
from minivllm.lab.bench.step import parts
from minivllm.lab.bench.step.points import RandomRequests, in_turns, measure_points, timed_step
from minivllm.lab.common.report import Report, add_model_arguments, listed, positive_int, tracked

WARM_UP_STEPS = 3
NUM_PREFILLS = 5
_PARTS = "; ".join(f"{name}: {what}" for name, what in parts.PARTS.items())
EPILOG = f"Parts of a step. {_PARTS}."
"""Below the help."""
LONGEST_POINT = 1024  # tokens of the longest request of `points.py`, at least
MeasuredPair = tuple[float, dict[str, float]]
"""Seconds of a plain step, and of each part of a watched one."""


class StepBench:
    def __init__(self, engine: LLMEngine, now: Callable[[], float]) -> None:
        self.engine, self._now = engine, now
        self.requests = RandomRequests(engine, seed=0)

    def measure_decodes(
        self, batch_size: int, context: int, max_tokens: int, num_steps: int
    ) -> list[MeasuredPair]:
        """Measure `num_steps` steps in each way; sequences start with `context` tokens."""
        for _ in range(batch_size):
            self.requests.add(context, max_tokens)
        for _ in range(WARM_UP_STEPS):
            self.engine.step()
            while any(item.kind == "prefill" for item in self.engine.core.last_plan.scheduled):
                self.engine.step()
        pairs = in_turns(num_steps, self._plain, self._watched)
        for request_id in list(self.engine.core.scheduler.requests):
            self.engine.abort_request(request_id)
        return pairs

    def measure_prefills(self, num_tokens: int) -> list[MeasuredPair]:
        """Measure steps with only one prompt of `num_tokens` tokens."""
        before = partial(self.requests.add, num_tokens, max_tokens=1)
        before()
        self.engine.step()
        return in_turns(NUM_PREFILLS, self._plain, self._watched, before=before)

    def _plain(self) -> float:
        return timed_step(self.engine, self._now).seconds

    def _watched(self) -> dict[str, float]:
        stopwatch = parts.Stopwatch(self._now)
        with parts.watch_parts(self.engine, stopwatch):
            self.engine.step()
        return stopwatch.seconds


def measure(args: argparse.Namespace) -> Report:
    largest = max(args.batch_sizes)
    # Leave room for prompts in a step with all decodes.
    budget = max(EngineConfig().max_num_batched_tokens, 2 * largest)
    # Until all prompts are computed, each step is full, with at most `largest` decodes.
    starting = math.ceil(largest * args.context / (budget - largest))
    max_tokens = starting + WARM_UP_STEPS + 2 * args.steps + 1
    num_tokens = largest * (args.context + max_tokens) + max(budget, LONGEST_POINT)
    config = EngineConfig(
        model=args.model,
        dtype=args.dtype,
        max_num_seqs=largest,
        max_num_batched_tokens=budget,
        num_gpu_blocks_override=num_tokens // EngineConfig().block_size + largest,
        enforce_eager=True,  # CUDA graphs would hide the parts of a step
    )
    clock = MonotonicClock()
    engine = LLMEngine.from_config(config, clock=clock)
    model = engine.core.runner.plain._model
    now = bench.waiting_clock(clock.now, model.device)
    steps = StepBench(engine, now)
    if args.trace is not None:
        bench.write_trace(engine, steps.requests, largest, args.context, args.trace)
    speed = bench.measure_machine_speed(model.dtype, model.device, now)
    results = []
    for size in tracked(args.batch_sizes, "decode steps"):
        times = steps.measure_decodes(size, args.context, max_tokens, args.steps)
        results.append({"kind": "decode", "batch_size": size, **describe_times(times)})
    num_tokens = min(budget, engine.max_model_len - 1)
    times = steps.measure_prefills(num_tokens)
    results.append({"kind": "prefill", "num_tokens": num_tokens, **describe_times(times)})
    sizes = args.batch_sizes
    points = measure_points(engine, steps.requests, clock.now, sizes) if args.json else []
    weights = model.decoder.bytes_per_token
    result = {
        "device": model.device.type,
        "attention_backend": engine.core.runner.plain.attention_backend,
        "weight_bytes": weights,
        "machine_speed": speed,
        "read_weights_s": weights / speed["read_gb_per_s"] / 1e9,
        "results": results,
        "points": [asdict(point) for point in points],
    }
    title = (
        f"Milliseconds of a step, and % of it: {args.model} {args.dtype} on {model.device.type},"
        f" {args.num_threads} threads, {args.context} tokens of context"
    )
    return Report(title, *table(results), notes(result), result)


def describe_times(pairs: list[MeasuredPair]) -> dict[str, Any]:
    """Return medians over the steps, and shares of the plain step."""
    plain, watched = zip(*pairs, strict=True)
    medians = {
        name: statistics.median(step.get(name, 0.0) for step in watched) for name in parts.PARTS
    }
    seconds = statistics.median(plain)
    return {
        "seconds": seconds,
        "parts": medians,
        "watching": statistics.median(sum(step.values()) for step in watched) / seconds - 1,
        "outside_model": sum(medians[name] for name in parts.OUTSIDE_PARTS) / seconds,
        "linear": sum(medians[name] for name in parts.LINEAR_PARTS) / seconds,
    }


def table(results: list[dict[str, Any]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    def cell(measured: dict[str, Any], part: str) -> str:
        seconds = measured["parts"][part]
        return f"{seconds * 1e3:.2f} {seconds / measured['seconds']:4.0%}"

    rows = [(part, *(cell(measured, part) for measured in results)) for part in parts.PARTS]
    rows.append(("step", *(f"{measured['seconds'] * 1e3:.2f}" for measured in results)))
    return ("part", *map(_name, results)), rows


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


def add_arguments(add: Callable[..., None]) -> None:
    add_model_arguments(add)
    sizes = {"type": listed(positive_int), "default": "1,4,16,64"}
    add("--batch-sizes N,...", "numbers of running sequences", **sizes)
    add("--context N", "tokens of each sequence", type=positive_int, default=128)
    ways = "steps for each way of measuring and batch size"
    add("--steps N", ways, type=positive_int, default=20)
    trace = "write some steps, from torch's profiler and the engine's events, for Perfetto"
    add("--trace FILE", trace)
