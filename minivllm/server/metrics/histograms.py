"""Histograms that the engine's thread can fill cheaply, with vLLM's names and bucket boundaries.

`prometheus_client` searches the buckets one by one and takes a lock for each value; `Histogram`
bisects, and leaves locking to the caller. As in Prometheus, a bucket includes values *equal* to its
boundary.

Source of the boundaries: vLLM `vllm/v1/metrics/buckets.py`.
"""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

_LATENCY = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
_FIRST_TOKEN = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
_BETWEEN_TOKENS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
)  # fmt: skip
_STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_TOKENS = ()
"""Stands for `token_buckets`."""

HISTOGRAMS: dict[str, tuple[str, Sequence[float]]] = {
    "request_prompt_tokens": ("Prompt tokens of a request.", _TOKENS),
    "request_generation_tokens": ("Output tokens of a sequence.", _TOKENS),
    "request_max_num_generation_tokens": (
        "Output tokens of a request's longest sequence.", _TOKENS,
    ),
    "request_params_max_tokens": ("Parameter max_tokens of a request.", _TOKENS),
    "request_prefill_kv_computed_tokens": (
        "Prompt tokens that were not in the prefix cache.", _TOKENS,
    ),
    "iteration_tokens_total": ("Tokens computed in a step.", _STEP_TOKENS),
    "request_params_n": ("Parameter n of a request.", (1, 2, 5, 10, 20)),
    "request_num_preemptions": ("Preemptions of one sequence.", (1, 2, 3, 4, 5, 10, 20)),
    "time_to_first_token_seconds": (
        "Time from a request's arrival to its first token.", _FIRST_TOKEN,
    ),
    "inter_token_latency_seconds": (
        "Time between two steps in which a sequence got tokens.", _BETWEEN_TOKENS,
    ),
    "request_time_per_output_token_seconds": (
        "Mean time between the tokens of a sequence.", _BETWEEN_TOKENS,
    ),
    "e2e_request_latency_seconds": ("Time from a request's arrival to its end.", _LATENCY),
    "request_queue_time_seconds": (
        "Time from a request's arrival to its first batch slot.", _LATENCY,
    ),
    "request_inference_time_seconds": (
        "Time from the first batch slot to the last token.", _LATENCY,
    ),
    "request_prefill_time_seconds": (
        "Time from the first batch slot to the first token.", _LATENCY,
    ),
    "request_decode_time_seconds": ("Time from the first token to the last.", _LATENCY),
}  # fmt: skip
"""Name -> meaning and boundaries."""


def token_buckets(max_model_len: int) -> tuple[int, ...]:
    """Return the boundaries 1, 2, 5, 10, 20, 50, ... up to `max_model_len`."""
    series = (
        mantissa * 10**exponent
        for exponent in range(len(str(max_model_len)))
        for mantissa in (1, 2, 5)
    )
    return tuple(value for value in series if value <= max_model_len)


class Histogram:
    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last bucket is for values above all bounds
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Return (boundary, number of values up to the boundary) per bucket, as in Prometheus."""
        names = [*(str(float(bound)) for bound in self.bounds), "+Inf"]
        return list(zip(names, accumulate(self.counts), strict=True))
