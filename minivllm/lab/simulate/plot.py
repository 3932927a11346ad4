"""The plot of a simulation: latency distributions, and memory and queue over time.

A picture with a million steps would take a hundred megabytes, so the curves over time have a few
hundred points.
"""

from collections.abc import Sequence as Seq
from pathlib import Path

import numpy as np

from minivllm.lab.plot import Subplot, distribution, plot
from minivllm.lab.simulate.measure import latencies, table
from minivllm.lab.simulate.replica import SERIES, Replica

NUM_MOMENTS = 400


def plot_simulations(title: str, sides: Seq[tuple[str, Seq[Replica]]], path: Path) -> None:
    found = [(name, latencies(replicas)) for name, replicas in sides]
    first = [(name, 1000 * of["ttft"]) for name, of in found]
    between = [(name, 1000 * of["tpot"][of["output_tokens"] > 1]) for name, of in found]
    blocks, waiting = [], []
    for name, replicas in sides:
        total = replicas[0].config.num_gpu_blocks_override
        moments = np.linspace(0, max(replica.now for replica in replicas), NUM_MOMENTS)
        used, queue = np.mean([_at(replica, moments) for replica in replicas], axis=0)
        blocks.append((name, moments, 100 * used / total))
        waiting.append((name, moments, queue))
    subplots = [
        distribution("Time to first token", "milliseconds", first, "log"),
        distribution("Time per output token", "milliseconds", between),
        Subplot("KV cache in use", "seconds", "% of the blocks", blocks),
        Subplot("Waiting requests of a replica", "seconds", "requests", waiting),
    ]
    plot(title, subplots, path)


def _at(replica: Replica, moments: np.ndarray) -> np.ndarray:
    """Used blocks and waiting requests at these moments; 0 while no step runs."""
    began, seconds, used, _, waiting = table(replica.steps, len(SERIES)).T
    if not len(began):
        return np.zeros((2, len(moments)))
    step = np.maximum(np.searchsorted(began, moments, side="right") - 1, 0)
    runs = (began[step] <= moments) & (moments < began[step] + seconds[step])
    return np.array([used[step], waiting[step]]) * runs
