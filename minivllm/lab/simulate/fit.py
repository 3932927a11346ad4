"""`StepTimeModel`: how long a step takes, by what is in it; fitted to measured steps by least
squares.

    seconds = constant + f(tokens) + a * decodes + b * context tokens

`f` is straight between a few knots, for a step's time does not grow evenly with its tokens: up to
some sixteen rows the weights are read anyhow, and later the arithmetic counts. No coefficient is
negative: a step that has more to do is never quicker, also where nothing was measured. What comes
out negative is left out, the worst first.

The error that is minimized is relative, or a few long prefills would decide about the decodes,
which are most of the steps. The easy thing to get wrong is the error that is told: on the points of
the fit itself it flatters. Each point is predicted here by a fit that has not seen it.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np

from minivllm.errors import SimulationError
from minivllm.lab.bench.step.points import StepPoint
from minivllm.lab.simulate.step_times import REMEDY

KNOTS = (1, 4, 16, 64, 256, 1024)
"""Tokens of a step at which the slope of `f` may change."""
MIN_POINTS = 12
ROUNDS = 6
"""Of least squares: each takes its weights from the one before, and after four nothing moves that
can be seen.
"""
FOLDS = 20
"""The points are left out in so many groups, of one each where they are few."""


@dataclass(frozen=True, slots=True)
class FitQuality:
    """How well it predicts points that it has not seen."""

    num_points: int
    r_squared: float
    median_relative_error: float
    p90_relative_error: float


class StepTimeModel:
    """Predicts the seconds of a step."""

    def __init__(self, coefficients: Seq[float], max_tokens: int) -> None:
        constant, *slopes, self.per_decode, self.per_context_token = (
            float(one) for one in coefficients
        )
        # A step is asked about a million times: its part by tokens is looked up.
        tokens = np.arange(max_tokens + 1)
        self._by_tokens = (constant + _segments(tokens) @ np.array(slopes)).tolist()

    def seconds(self, num_tokens: int, num_decodes: int, num_context_tokens: int) -> float:
        """`num_tokens`: of the whole step, from 1 to the `max_tokens` of the model."""
        return (
            self._by_tokens[num_tokens]
            + self.per_decode * num_decodes
            + self.per_context_token * num_context_tokens
        )


@dataclass(frozen=True, slots=True)
class Fit:
    """Coefficients and how good they are."""

    coefficients: tuple[float, ...]
    """Constant, slopes between the knots, a decode, a context token; all in seconds."""
    quality: FitQuality

    def model(self, max_tokens: int) -> StepTimeModel:
        return StepTimeModel(self.coefficients, max_tokens)


def fit_step_times(points: Seq[StepPoint]) -> Fit:
    """Raises `SimulationError` if the points are too few, or too much alike, to tell what costs
    what.
    """
    if len(points) < MIN_POINTS:
        raise SimulationError(
            f"{len(points)} measured steps are too few for a fit, {MIN_POINTS} are needed:"
            f" {REMEDY}."
        )
    if len({point.num_scheduled_tokens for point in points}) < 3:
        raise SimulationError(
            "The measured steps have fewer than three different sizes, and no fit can tell what a"
            f" token costs: {REMEDY}."
        )
    rows = _features(points)
    seconds = np.array([point.seconds for point in points])
    unseen = _predict_unseen(rows, seconds)
    errors = np.abs(unseen - seconds) / seconds
    spread = float(np.sum((seconds - seconds.mean()) ** 2))
    quality = FitQuality(
        len(points),
        1.0 - float(np.sum((unseen - seconds) ** 2)) / spread if spread else 0.0,
        float(np.median(errors)),
        float(np.percentile(errors, 90)),
    )
    return Fit(tuple(_extrapolated(_least_squares(rows, seconds), rows).tolist()), quality)


def _predict_unseen(rows: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Each point's time, by a fit to the points of the other groups."""
    unseen = np.empty(len(rows))
    group = np.arange(len(rows)) % FOLDS
    for one in np.unique(group):
        unseen[group == one] = rows[group == one] @ _least_squares(
            rows[group != one], seconds[group != one]
        )
    return unseen


def _least_squares(rows: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Coefficients of least relative error, none of them negative.

    Relative to what is predicted, so it takes a few rounds. Relative to what was measured, a step
    that took twice as long as usual would count a quarter, and every prediction would be that of a
    lucky day.
    """
    expected = seconds
    for _ in range(ROUNDS):
        coefficients = _not_negative(rows / expected[:, None], seconds / expected)
        expected = np.maximum(rows @ coefficients, seconds.min() / 10)
    return coefficients


def _not_negative(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    scale = np.linalg.norm(rows, axis=0)
    # where nothing was measured (no step so long), there is nothing to fit
    kept = np.flatnonzero(scale)
    while True:
        found = np.linalg.lstsq(rows[:, kept] / scale[kept], values, rcond=None)[0]
        if found.min() >= 0:
            coefficients = np.zeros(rows.shape[1])
            coefficients[kept] = found / scale[kept]
            return coefficients
        kept = np.delete(kept, found.argmin())


def _extrapolated(coefficients: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Beyond the longest step that was measured, the slope goes on as it was before."""
    for column in range(2, len(KNOTS) + 1):
        if not rows[:, column].any():
            coefficients[column] = coefficients[column - 1]
    return coefficients


def _features(points: Seq[StepPoint]) -> np.ndarray:
    tokens = np.array([point.num_scheduled_tokens for point in points])
    others = np.array([(point.num_decodes, point.num_context_tokens) for point in points])
    return np.column_stack([np.ones(len(points)), _segments(tokens), others])


def _segments(tokens: np.ndarray) -> np.ndarray:
    """Of each number of tokens, how many lie between each two knots; what lies beyond the last has
    a column, too.
    """
    borders = (*KNOTS, np.inf)
    return np.column_stack(
        [np.clip(tokens - low, 0, high - low) for low, high in zip(KNOTS, borders[1:], strict=True)]
    )
