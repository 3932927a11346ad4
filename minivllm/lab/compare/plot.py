"""The plot of a comparison: memory and slots over time, and latencies, for both sides."""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from pathlib import Path

from minivllm.events.kv_usage import KVUsage
from minivllm.lab.compare.measure import Measured
from minivllm.lab.plot import Subplot, distribution, plot


def plot_comparison(title: str, names: Seq[str], measured: Seq[Measured], path: Path) -> None:
    def over_time(title: str, unit: str, value: Callable[[KVUsage], float]) -> Subplot:
        curves = [
            (name, [one.t - side.began for one in side.usage], list(map(value, side.usage)))
            for name, side in zip(names, measured, strict=True)
        ]
        return Subplot(title, "seconds", unit, curves)

    memory = over_time(
        "KV cache: used (line), allocated (dots)",
        "% of the memory",
        lambda one: 100 * one.used / one.total,
    )
    allocated = [[100 * one.allocated / one.total for one in side.usage] for side in measured]
    latencies = [side.latencies for side in measured]
    first = zip(names, (one.time_to_first_token for one in latencies), strict=True)
    between = zip(names, (one.between_tokens for one in latencies), strict=True)
    subplots = [
        memory._replace(dotted=allocated),
        over_time("Requests running at once", "requests", lambda one: one.num_running),
        distribution("Time to first token", "seconds", first),
        # Log scale: stalls are often a hundred times the median.
        distribution("Time between tokens", "seconds", between, "log"),
    ]
    plot(title, subplots, path)
