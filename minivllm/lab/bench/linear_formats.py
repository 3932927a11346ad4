"""`minivllm bench linear --formats all`: the CPU kernel over weights in each stored format.

    minivllm bench linear --num-threads 2 --formats q4_1,bfloat16 --rows 1,16

float32 is always measured too, in the same rounds. A ratio compares times per weight, because a
format with blocks of 256 needs more inputs than some models have (576 becomes 768).
"""

import math
import statistics

import torch

from minivllm.clock import Clock
from minivllm.errors import BenchError
from minivllm.lab.bench.passes import time_passes
from minivllm.runtime.cpu.large_pages import LargePages
from minivllm.runtime.model.linear_backend import CpuMatrix, choose_linear_backend
from minivllm.runtime.quantization.formats import FORMATS
from minivllm.runtime.quantization.stored_weight import StoredWeight

BASE = "float32"
_SCALES_AT = {"q8_0": (0, 2), "q4_0": (0, 2), "q4_1": (0, 4), "q4_k": (0, 4), "q6_k": (208, 210)}
"""The bytes of a block that are scales and minimums in float16."""


def chosen_formats(text: str) -> list[str]:
    """Parse `--formats`: names with commas, or `all`. Raises `BenchError` for an unknown name."""
    names = list(FORMATS) if text == "all" else text.split(",")
    for name in names:
        if name not in FORMATS:
            raise BenchError(f"--formats must be of all, {', '.join(FORMATS)}; got {name!r:.50}.")
    return [BASE, *(name for name in names if name != BASE)]


def random_weight(name: str, num_rows: int, in_features: int) -> StoredWeight:
    """Return a matrix with random weights, or with random quants and scales."""
    format_ = FORMATS[name]
    if format_.dtype is not None:
        return StoredWeight.of_tensor(torch.randn(num_rows, in_features).to(format_.dtype))
    if name == "int8":
        return StoredWeight.quantize_int8(torch.randn(num_rows, in_features))
    shape = (num_rows, in_features // format_.block_size, format_.block_bytes)
    blocks = torch.randint(0, 256, shape, dtype=torch.uint8)
    first, end = _SCALES_AT[name]
    scales = torch.randn(*shape[:2], (end - first) // 2) * 0.01
    blocks[..., first:end] = scales.half().view(torch.uint8)
    return StoredWeight(format_, blocks.flatten(1), in_features)


class FormatBench:
    """The matrices of all layers in several formats, for the CPU kernel."""

    def __init__(
        self, names: list[str], shapes: list[tuple[int, int]], num_layers: int, clock: Clock
    ) -> None:
        # Raises ConfigError if the kernel cannot run here.
        choose_linear_backend("cpu", torch.float32, torch.device("cpu"))
        self._clock = clock
        self._ways: dict[str, list[CpuMatrix]] = {}
        self._in_features: dict[str, list[int]] = {}
        self.num_weights: dict[str, int] = {}
        self.num_bytes: dict[str, int] = {}
        """Format -> bytes of all matrices, as a checkpoint stores them."""
        for name in names:
            block = FORMATS[name].block_size
            whole = [(rows, math.ceil(columns / block) * block) for rows, columns in shapes]
            memory = LargePages()
            self._ways[name] = [
                CpuMatrix([random_weight(name, *shape)], memory=memory)
                for _ in range(num_layers)
                for shape in whole
            ]
            self._in_features[name] = [columns for _, columns in whole]
            self.num_weights[name] = num_layers * sum(math.prod(shape) for shape in whole)
            self.num_bytes[name] = num_layers * sum(
                rows * FORMATS[name].bytes_per_row(columns) for rows, columns in whole
            )

    def measure(self, num_rows: int, num_rounds: int) -> dict[str, list[float]]:
        """Return for each format the seconds of a pass through all layers, one entry per round."""
        inputs = {
            name: [torch.randn(num_rows, columns) for columns in in_features]
            for name, in_features in self._in_features.items()
        }
        return time_passes(self._ways, inputs, num_rounds, self._clock)

    def rows_of_table(self, results: list[dict]) -> list[list[str]]:
        """Return a row per number of rows and format.

        results: {"rows", "seconds": the result of `measure`} for each number of rows
        """
        return [
            [
                str(entry["rows"]),
                name,
                f"{1e3 * statistics.median(seconds):.1f}",
                f"{self.num_bytes[name] / statistics.median(seconds) / 1e9:.1f}",
                f"{self._ratio(entry['seconds'], name):.2f}",
            ]
            for entry in results
            for name, seconds in entry["seconds"].items()
        ]

    def _ratio(self, times: dict[str, list[float]], name: str) -> float:
        ratios = [base / own for base, own in zip(times[BASE], times[name], strict=True)]
        return statistics.median(ratios) * self.num_weights[name] / self.num_weights[BASE]
