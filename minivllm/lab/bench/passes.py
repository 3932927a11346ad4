"""`time_passes`: several ways to multiply take turns, pass by pass."""

from collections.abc import Mapping, Sequence

import torch

from minivllm.clock import Clock
from minivllm.runtime.model.linear_backend import Matrix


def time_passes(
    ways: Mapping[str, Sequence[Matrix]],
    inputs: Mapping[str, Sequence[torch.Tensor]],
    num_rounds: int,
    clock: Clock,
) -> dict[str, list[float]]:
    """Return for each way the seconds of a pass through its matrices, one entry per round.

    inputs: for each way, those of its first matrices; the matrices after them take them again
    """
    times: dict[str, list[float]] = {way: [] for way in ways}
    with torch.inference_mode():
        for number in range(num_rounds + 1):  # the first round warms up
            for way, matrices in ways.items():
                started = clock.now()
                for index, matrix in enumerate(matrices):
                    matrix.multiply(inputs[way][index % len(inputs[way])])
                if number:
                    times[way].append(clock.now() - started)
    return times
