"""The plot of a comparison: memory and slots over time, and latency curves, for both sides.

matplotlib is an extra (`pip install 'minivllm[plot]'`); `check_plot` looks for it before a run.
It uses a `Figure` and not `pyplot`, which keeps global state and looks for a screen.
"""

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minivllm.errors import ConfigError
from minivllm.events.kv_usage import KVUsage
from minivllm.events.recording.whole_file import whole_file
from minivllm.lab.compare.measure import Measured

_COLORS = ("#d95f02", "#1b6ca8")
"""Colours of `a` and `b`. They differ in print and with red-green colour blindness, too."""


FORMATS = (".svg", ".png", ".pdf")


def check_plot(path: Path) -> None:
    """Raise `ConfigError` if no plot can be written to `path`. Call this before the long run."""
    if find_spec("matplotlib") is None:
        raise ConfigError(
            "--plot needs matplotlib, which is not installed: pip install 'minivllm[plot]'."
        )
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"--plot draws {', '.join(FORMATS)}; got {path.name!r}.")
    if not os.access(path.parent, os.W_OK):
        raise ConfigError(
            f"--plot cannot write to the folder {path.parent}: create it, or name another folder."
        )


def plot_comparison(title: str, sides: list[Measured], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7), layout="constrained")
    figure.suptitle(title)
    (memory, slots), (first, between) = figure.subplots(2, 2)
    for side, color in zip(sides, _COLORS, strict=True):
        label = {"label": side.name, "color": color}
        used = _over_time(memory, side, lambda sample: 100 * sample.used / sample.total, **label)
        allocated = _over_time(
            memory,
            side,
            lambda sample: 100 * sample.allocated / sample.total,
            color=color,
            linestyle=":",
        )
        # The area between the two curves is wasted memory.
        memory.fill_between(
            allocated[0], used[1], allocated[1], step="post", color=color, alpha=0.15, linewidth=0
        )
        _over_time(slots, side, lambda sample: sample.num_running, **label)
        _distribution(first, side.latencies.time_to_first_token, **label)
        _distribution(
            between, [1000 * seconds for seconds in side.latencies.between_tokens], **label
        )
    _name(
        memory,
        "KV cache: used (line), allocated (dots), wasted (shaded)",
        "seconds",
        "% of the memory",
    )
    _name(slots, "Requests running at once", "seconds", "requests")
    _name(first, "Time to first token", "% of the requests", "at most this many seconds")
    _name(between, "Time between tokens", "% of the tokens", "at most this many milliseconds")
    # Log scale: stalls are often a hundred times the median.
    between.set_yscale("log")
    with whole_file(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower())


def _over_time(
    axes: Any, side: Measured, value: Callable[[KVUsage], float], **style: object
) -> tuple[list[float], list[float]]:
    times = [sample.t - side.began for sample in side.usage]
    values = [value(sample) for sample in side.usage]
    axes.step(times, values, where="post", **style)
    return times, values


def _distribution(axes: Any, values: list[float], **style: object) -> None:
    """Plot the sorted values, smallest first, so that the tail is at the right end."""
    ordered = sorted(values)
    axes.plot([100 * (i + 1) / len(ordered) for i in range(len(ordered))], ordered, **style)


def _name(axes: Any, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize="medium")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
