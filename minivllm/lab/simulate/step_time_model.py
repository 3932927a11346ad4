"""`StepTimeModel`: predicts the time of a step from its contents.

    seconds = constant + f(tokens) + a * decodes + b * context tokens

`f` is linear between a few knots, because up to about sixteen tokens, reading the weights takes
most of the time, and with more, arithmetic does. `fit` finds the coefficients; it needs numpy, and
this file does not, so that a browser can use a fit that was made elsewhere.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from minivllm.lab.bench.step.points import StepPoint

KNOTS = (1, 4, 16, 64, 256, 1024)
"""Tokens per step at which the slope of `f` can change."""
IDLE_SECONDS = 0.001
"""Duration of a step in which nothing could run, as in `MonotonicClock.idle`."""


class StepTimeModel:
    def __init__(self, coefficients: Seq[float], max_tokens: int) -> None:
        constant, *slopes, self.per_decode, self.per_context_token = (
            float(coefficient) for coefficient in coefficients
        )
        # `seconds` is called about a million times, so `constant + f(tokens)` is a table.
        self._by_tokens = [
            constant
            + sum(
                slope * min(max(tokens - low, 0), high - low)
                for slope, (low, high) in zip(slopes, pairwise((*KNOTS, inf)), strict=True)
            )
            for tokens in range(max_tokens + 1)
        ]

    def seconds(self, num_tokens: int, num_decodes: int, num_context_tokens: int) -> float:
        """Predict a step's time. num_tokens: all tokens of the step, from 1 to `max_tokens`"""
        return (
            self._by_tokens[num_tokens]
            + self.per_decode * num_decodes
            + self.per_context_token * num_context_tokens
        )

    def predict(self, point: StepPoint) -> float:
        """Predict the time of a step with the contents of `point`."""
        return self.seconds(point.num_scheduled_tokens, point.num_decodes, point.num_context_tokens)


@dataclass(frozen=True, slots=True)
class Fit:
    """Coefficients, and how well they predict points to which they were not fitted."""

    coefficients: tuple[float, ...]
    """In seconds: the constant, slopes between the knots, time per decode and context token."""
    num_points: int = 0
    r_squared: float = 1.0
    median_relative_error: float = 0.0
    p90_relative_error: float = 0.0

    def model(self, max_tokens: int) -> StepTimeModel:
        return StepTimeModel(self.coefficients, max_tokens)
