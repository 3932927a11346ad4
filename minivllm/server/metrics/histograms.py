"""Histograms that the engine's thread can fill cheaply, and vLLM's bucket boundaries.

`prometheus_client` searches the buckets one by one and takes a lock for each value; `Histogram`
bisects, and leaves locking to the caller. As in Prometheus, a bucket includes values *equal* to its
boundary.

Source of the boundaries: vLLM `vllm/v1/metrics/buckets.py`.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

REQUEST_LATENCY = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
TIME_TO_FIRST_TOKEN = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
INTER_TOKEN_LATENCY = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
)  # fmt: skip
ITERATION_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
PARAMS_N = (1, 2, 5, 10, 20)
NUM_PREEMPTIONS = (1, 2, 3, 4, 5, 10, 20)


def token_buckets(max_model_len: int) -> tuple[int, ...]:
    """Return the boundaries 1, 2, 5, 10, 20, 50, ... up to `max_model_len`."""
    series = (
        mantissa * 10**exponent
        for exponent in range(len(str(max_model_len)))
        for mantissa in (1, 2, 5)
    )
    return tuple(value for value in series if value <= max_model_len)


class Histogram:
    __slots__ = ("_counts", "_sum", "bounds")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)  # the last bucket is for values above all bounds
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self.bounds, value)] += 1
        self._sum += value

    def snapshot(self) -> "HistogramSnapshot":
        return HistogramSnapshot(self.bounds, self._counts.copy(), self._sum)


class HistogramSnapshot:
    def __init__(self, bounds: Sequence[float], counts: list[int], total: float) -> None:
        self._bounds, self._counts, self.sum = bounds, counts, total

    def buckets(self) -> list[tuple[str, float]]:
        """Return (boundary, number of values up to the boundary) per bucket, as in Prometheus."""
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        return list(zip(names, accumulate(self._counts), strict=True))
