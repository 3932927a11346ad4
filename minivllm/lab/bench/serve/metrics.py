"""The numbers of `minivllm bench serve`, with the names and definitions of `vllm bench serve`.

    TTFT   time to first token
    TPOT   time per output token after the first token, a mean for each request
    ITL    inter-token latency: the time from one message to the next, over all requests together
    E2EL   end-to-end latency

Percentiles interpolate, as in vLLM (numpy's default); our other benches use the nearest rank.

Source: vLLM `vllm/benchmarks/serve.py`, `calculate_metrics`.
"""

import math
from collections.abc import Sequence as Seq

import numpy as np

from minivllm.lab.bench.serve.client import Timing

WIDTH = 50
LATENCIES = {
    "ttft": ("TTFT", "Time to First Token"),
    "tpot": ("TPOT", "Time per Output Token (excl. 1st token)"),
    "itl": ("ITL", "Inter-token Latency"),
    "e2el": ("E2EL", "End-to-end Latency"),
}
"""vLLM's key -> abbreviation and title in vLLM's report."""

Result = dict[str, float | int | None]


def summarise(timings: Seq[Timing], seconds: float, percentiles: Seq[float]) -> Result:
    """Return results under vLLM's key names; latencies are in milliseconds, None without values."""
    good = [timing for timing in timings if timing.error is None]
    output_tokens = sum(timing.output_tokens for timing in good)
    input_tokens = sum(timing.prompt_tokens for timing in good)
    result: Result = {
        "duration": seconds,
        "completed": len(good),
        "failed": len(timings) - len(good),
        "total_input_tokens": input_tokens,
        "total_output_tokens": output_tokens,
        "request_throughput": len(good) / seconds,
        "output_throughput": output_tokens / seconds,
        "total_token_throughput": (input_tokens + output_tokens) / seconds,
        **_peaks(good),
    }
    values = {
        "ttft": [timing.ttft for timing in good],
        "tpot": [timing.tpot for timing in good if timing.tpot is not None],
        "itl": [gap for timing in good for gap in timing.itl],
        "e2el": [timing.latency for timing in good],
    }
    for key in LATENCIES:
        ms = np.array(values[key]) * 1000
        for name, function in (("mean", np.mean), ("median", np.median), ("std", np.std)):
            result[f"{name}_{key}_ms"] = float(function(ms)) if len(ms) else None
        for percent in percentiles:
            result[f"p{percent:g}_{key}_ms"] = (
                float(np.percentile(ms, percent)) if len(ms) else None
            )
    return result


def _peaks(good: Seq[Timing]) -> Result:
    if not good:
        return {"max_output_tokens_per_s": 0.0, "max_concurrent_requests": 0}
    first = min(timing.started for timing in good)
    num_seconds = math.ceil(max(timing.started + timing.latency for timing in good) - first) + 1
    messages, requests = np.zeros(num_seconds), np.zeros(num_seconds, dtype=int)
    for timing in good:
        started = timing.started - first
        for time in np.cumsum([started + timing.ttft, *timing.itl]):
            messages[int(time)] += 1
        requests[int(started) : int(started + timing.latency) + 1] += 1
    return {
        "max_output_tokens_per_s": float(messages.max()),
        "max_concurrent_requests": int(requests.max()),
    }


def report(
    result: Result, rate: float, max_concurrency: int | None, percentiles: Seq[float]
) -> list[str]:
    """Return the lines that `vllm bench serve` prints."""
    lines = [
        " Serving Benchmark Result ".center(WIDTH, "="),
        _row("Successful requests:", result["completed"]),
        _row("Failed requests:", result["failed"]),
    ]
    if max_concurrency is not None:
        lines.append(_row("Maximum request concurrency:", max_concurrency))
    if not math.isinf(rate):
        lines.append(_row("Request rate configured (RPS):", float(rate)))
    lines += [
        _row("Benchmark duration (s):", result["duration"]),
        _row("Total input tokens:", result["total_input_tokens"]),
        _row("Total generated tokens:", result["total_output_tokens"]),
        _row("Request throughput (req/s):", result["request_throughput"]),
        _row("Output token throughput (tok/s):", result["output_throughput"]),
        _row("Peak output token throughput (tok/s):", result["max_output_tokens_per_s"]),
        _row("Peak concurrent requests:", float(result["max_concurrent_requests"])),
        _row("Total token throughput (tok/s):", result["total_token_throughput"]),
    ]
    for key, (name, title) in LATENCIES.items():
        lines.append(title.center(WIDTH, "-"))
        lines.append(_row(f"Mean {name} (ms):", result[f"mean_{key}_ms"]))
        lines.append(_row(f"Median {name} (ms):", result[f"median_{key}_ms"]))
        lines += [
            _row(f"P{percent:g} {name} (ms):", result[f"p{percent:g}_{key}_ms"])
            for percent in percentiles
        ]
    return [*lines, "=" * WIDTH]


def _row(label: str, value: float | int | None) -> str:
    shown = "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)
    return f"{label:<40} {shown:<10}"
