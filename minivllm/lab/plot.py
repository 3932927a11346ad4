"""The picture of `compare` and `simulate`: four plots with a curve for each side.

matplotlib is an extra (`pip install 'minivllm[plot]'`); `check_plot` looks for it before a run.
It uses a `Figure` and not `pyplot`, which keeps global state and looks for a screen.
"""

import os
from collections.abc import Sequence as Seq
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from minivllm.errors import ConfigError
from minivllm.events.recording.whole_file import whole_file

FORMATS = (".svg", ".png", ".pdf")
NUM_QUANTILES = 1000
"""Most steps of a distribution, of which a picture with millions would take a hundred megabytes."""


class Curves(NamedTuple):
    name: str
    first: Seq[float]  # seconds to the first token of each request
    between: Seq[float]  # seconds between tokens
    times: Seq[float]  # the other values hold from one of these times, in seconds, to the next
    used: Seq[float]  # percent of the KV cache; so is `allocated`
    requests: Seq[float]
    allocated: Seq[float] = ()  # drawn as dots, if it differs from `used`


def check_plot(path: Path) -> None:
    """Raise `ConfigError` if no plot can be written to `path`. Call this before the long run."""
    if find_spec("matplotlib") is None:
        raise ConfigError("--plot needs matplotlib: pip install 'minivllm[plot]'.")
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"--plot draws {', '.join(FORMATS)}; got {path.name!r}.")
    if not os.access(path.parent, os.W_OK):
        raise ConfigError(f"--plot cannot write to the folder {path.parent}: name another folder.")


def plot(title: str, sides: Seq[Curves], path: Path, between: str, requests: str) -> None:
    """between, requests: titles of the plots with these values of the sides"""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7), layout="constrained")
    figure.suptitle(title, fontsize="medium")
    (first, gaps), (memory, crowd) = figure.subplots(2, 2)
    for side in sides:
        for axes, values in ((first, side.first), (gaps, side.between)):
            if len(values):
                shares = np.linspace(0, 1, NUM_QUANTILES)
                axes.ecdf(np.quantile(values, shares, method="inverted_cdf"), label=side.name)
        style = {"drawstyle": "steps-post"}
        (line,) = memory.plot(side.times, side.used, label=side.name, **style)
        if len(side.allocated):
            memory.plot(side.times, side.allocated, ":", color=line.get_color(), **style)
        crowd.plot(side.times, side.requests, label=side.name, **style)
    # Log scale: stalls are often a hundred times the median.
    latency = {"xlabel": "at most this many seconds", "ylabel": "share", "xscale": "log"}
    first.set(title="Time to first token", **latency)
    gaps.set(title=between, **latency)
    memory.set(title="KV cache: used (dots: allocated)", xlabel="seconds", ylabel="%")
    crowd.set(title=requests, xlabel="seconds", ylabel="requests")
    for axes in figure.axes:
        axes.grid(alpha=0.3)
        if axes.lines:  # none if every output has one token: no time between tokens
            axes.legend(fontsize="small")
    with whole_file(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower())
