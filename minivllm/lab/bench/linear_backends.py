"""`minivllm bench linear` without `--formats`: the same layers with each backend."""

import torch

from minivllm.clock import Clock
from minivllm.errors import BenchError, ConfigError
from minivllm.lab.bench.passes import time_passes
from minivllm.runtime.model.linear_backend import Matrix, activation_dtype, choose_linear_backend

WAYS = ("cpu", "onednn", "torch")
MAX_WEIGHT_BYTES = 4 << 30
"""Limit for the weights of one backend; each of the three backends has its own copy."""


class LinearBench:
    """The matrices of all layers, in the layout of every backend that can run here."""

    def __init__(
        self, shapes: list[tuple[int, int]], num_layers: int, dtype: torch.dtype, clock: Clock
    ) -> None:
        self.weight_bytes = (
            num_layers * dtype.itemsize * sum(rows * columns for rows, columns in shapes)
        )
        if self.weight_bytes > MAX_WEIGHT_BYTES:
            raise BenchError(
                f"These layers have {self.weight_bytes / 2**30:.1f} GiB: use a model of at most 4"
                " GiB."
            )
        self._shapes, self._dtype, self._clock = shapes, dtype, clock
        self.ways: dict[str, list[Matrix]] = {}
        self.left_out: dict[str, str] = {}
        """Backend -> why this backend cannot run here."""
        for way in WAYS:
            try:
                make_matrix = choose_linear_backend(way, dtype, torch.device("cpu"))
            except ConfigError as error:
                self.left_out[way] = str(error)
                continue
            weights = (torch.randn(shape).to(dtype) for _ in range(num_layers) for shape in shapes)
            self.ways[way] = [make_matrix(weight, False) for weight in weights]

    def measure(self, num_rows: int, num_rounds: int) -> dict[str, list[float]]:
        """Return for each backend the seconds of a pass through all layers, one entry per round."""
        dtype = activation_dtype(self._dtype, torch.device("cpu"))
        inputs = [torch.randn(num_rows, in_features).to(dtype) for _, in_features in self._shapes]
        return time_passes(self.ways, dict.fromkeys(self.ways, inputs), num_rounds, self._clock)
