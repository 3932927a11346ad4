"""The plots of `compare` and `simulate`: four subplots with a curve for each side.

matplotlib is an extra (`pip install 'minivllm[plot]'`); `check_plot` looks for it before a run.
It uses a `Figure` and not `pyplot`, which keeps global state and looks for a screen.
"""

import os
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

from minivllm.errors import ConfigError
from minivllm.events.recording.whole_file import whole_file

FORMATS = (".svg", ".png", ".pdf")
_QUANTILES = np.concatenate([np.linspace(0, 0.99, 397), np.linspace(0.99, 1, 101)[1:]])


class Subplot(NamedTuple):
    title: str
    x: str
    y: str
    curves: Seq[tuple[str, Seq[float], Seq[float]]]
    """(side, x values, y values) of each curve"""
    x_scale: str = "linear"
    dotted: Seq[Seq[float]] = ()
    """Other y values for each curve, drawn as dots in its colour"""


def distribution(
    title: str, unit: str, sides: Iterable[tuple[str, Seq[float]]], scale: str = "linear"
) -> Subplot:
    """Share of the values that are at most x, without sides that have no values."""
    curves = [
        (name, np.quantile(values, _QUANTILES), 100 * _QUANTILES)
        for name, values in sides
        if len(values)
    ]
    return Subplot(title, f"at most this many {unit}", "%", curves, scale)


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


def plot(title: str, subplots: Seq[Subplot], path: Path) -> None:
    """Draw four subplots into a file; the values hold from one x to the next."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7), layout="constrained")
    figure.suptitle(title, fontsize="medium")
    for axes, subplot in zip(figure.subplots(2, 2).flat, subplots, strict=True):
        for name, x, y in subplot.curves:
            axes.plot(x, y, label=name, drawstyle="steps-post")
        for (_, x, _), y, line in zip(
            subplot.curves, subplot.dotted, list(axes.lines), strict=False
        ):
            axes.plot(x, y, ":", color=line.get_color(), drawstyle="steps-post")
        axes.set_title(subplot.title, fontsize="medium")
        axes.set(xlabel=subplot.x, ylabel=subplot.y, xscale=subplot.x_scale)
        axes.grid(alpha=0.3)
        if axes.lines:  # none if every output has one token: no time between tokens
            axes.legend(fontsize="small")
    with whole_file(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower())
