"""The plot of a simulation: latency distributions, and memory and queue over time.

matplotlib is an extra; `compare.plot.check_plot` looks for it before the simulation. A picture with
a million steps would take a hundred megabytes, so the curves over time have a few hundred points.
"""

from collections.abc import Sequence as Seq
from pathlib import Path

import numpy as np

from minivllm.events.recording.whole_file import whole_file
from minivllm.lab.simulate.charts import over_time
from minivllm.lab.simulate.measure import latencies
from minivllm.lab.simulate.replica import Replica

STRETCHES = 400
_SHOWN_QUANTILES = np.concatenate([np.linspace(0, 0.99, 397), np.linspace(0.99, 1, 101)[1:]])


def mean_over_replicas(replicas: Seq[Replica], name: str, width: int) -> np.ndarray:
    """Split the run into `width` intervals; return the mean of the series `name` over all replicas
    in each.
    """
    end = max(replica.now for replica in replicas)
    ran = [replica.samples for replica in replicas if replica.samples.began]
    arrays = (
        (np.array(one.began), np.array(one.seconds), np.array(getattr(one, name))) for one in ran
    )
    return sum(over_time(*one, end, width) for one in arrays) / len(replicas)


def plot_simulations(title: str, sides: Seq[tuple[str, Seq[Replica]]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7), layout="constrained")
    figure.suptitle(title, fontsize="medium")
    (first, between), (memory, queue) = figure.subplots(2, 2)
    for name, replicas in sides:
        of = latencies(replicas)
        for axes, seconds in ((first, of["ttft"]), (between, of["tpot"][of["output_tokens"] > 1])):
            if len(seconds):
                axes.plot(
                    np.quantile(seconds, _SHOWN_QUANTILES) * 1000,
                    100 * _SHOWN_QUANTILES,
                    label=name,
                )
        end = max(replica.now for replica in replicas)
        moments = np.linspace(0, end, STRETCHES, endpoint=False)
        total = replicas[0].config.num_gpu_blocks_override
        memory.plot(
            moments,
            100 * mean_over_replicas(replicas, "used_blocks", STRETCHES) / total,
            label=name,
        )
        queue.plot(moments, mean_over_replicas(replicas, "waiting", STRETCHES), label=name)
    for axes, heading, x, y in (
        (first, "Time to first token", "at most this many milliseconds", "% of the requests"),
        (between, "Time per output token", "at most this many milliseconds", "% of the requests"),
        (memory, "KV cache in use", "seconds", "% of the blocks"),
        (queue, "Waiting requests of a replica", "seconds", "requests"),
    ):
        axes.set_title(heading, fontsize="medium")
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.grid(alpha=0.3)
        if axes.lines:  # no lines if every output has one token: no time per output token
            axes.legend(fontsize="small")
    first.set_xscale("log")
    with whole_file(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower())
