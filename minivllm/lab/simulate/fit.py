"""`fit_step_times`: fits the coefficients of a `StepTimeModel` to measured steps.

Terms with a negative coefficient are removed, the most negative first, because more work never
takes less time.

The fit minimizes the relative error, so that a few long prefills do not outweigh the decodes. The
reported error is from cross-validation: each point is predicted by a fit to other points.
"""

from collections.abc import Sequence as Seq

import numpy as np

from minivllm.errors import SimulationError
from minivllm.lab.bench.step.points import StepPoint
from minivllm.lab.simulate.step_times import KNOTS, REMEDY, Fit

MIN_POINTS = 12
ROUNDS = 6  # iterations of least squares; after four, the result hardly changes
FOLDS = 20  # number of groups for cross-validation; with few points, each group has one point


def fit_step_times(points: Seq[StepPoint]) -> Fit:
    """Fit a model. Raises `SimulationError` if `points` are too few or too similar."""
    if (number := len(points)) < MIN_POINTS:
        few = f"{number} measured steps are too few for a fit, which needs {MIN_POINTS}"
        raise SimulationError(f"{few}: {REMEDY}.")
    if len({point.num_scheduled_tokens for point in points}) < 3:
        raise SimulationError(
            "The measured steps have fewer than three different sizes, so the cost of a token"
            f" cannot be fitted: {REMEDY}."
        )
    tokens = np.array([[point.num_scheduled_tokens] for point in points])
    # Split each step's tokens into those between knots; the last column is beyond all knots.
    lows, highs = np.array(KNOTS), np.array([*KNOTS[1:], np.inf])
    others = [(point.num_decodes, point.num_context_tokens) for point in points]
    rows = np.hstack([np.ones_like(tokens), np.clip(tokens - lows, 0, highs - lows), others])
    seconds = np.array([point.seconds for point in points])
    unseen = _predict_unseen(rows, seconds)
    errors = np.abs(unseen - seconds) / seconds
    spread = float(np.sum((seconds - seconds.mean()) ** 2))
    return Fit(
        tuple(_extrapolated(_least_squares(rows, seconds), rows).tolist()),
        num_points=number,
        r_squared=1.0 - float(np.sum((unseen - seconds) ** 2)) / spread if spread else 0.0,
        median_relative_error=float(np.median(errors)),
        p90_relative_error=float(np.percentile(errors, 90)),
    )


def _predict_unseen(rows: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Predict each point's time with a fit to the points of the other groups."""
    unseen = np.empty(len(rows))
    group = np.arange(len(rows)) % FOLDS
    for held_out in np.unique(group):
        others = group != held_out
        unseen[~others] = rows[~others] @ _least_squares(rows[others], seconds[others])
    return unseen


def _least_squares(rows: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Find the non-negative coefficients with the least relative error.

    The error is relative to the predicted time, so several rounds are needed. If it were relative
    to the measured time, slow steps would count too little, and predictions would be too fast.
    """
    expected = seconds
    for _ in range(ROUNDS):
        coefficients = _not_negative(rows / expected[:, None], seconds / expected)
        expected = np.maximum(rows @ coefficients, seconds.min() / 10)
    return coefficients


def _not_negative(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    scale = np.linalg.norm(rows, axis=0)
    # A column of zeros cannot be fitted (for example, sizes beyond the longest measured step).
    kept = np.flatnonzero(scale)
    while True:
        found = np.linalg.lstsq(rows[:, kept] / scale[kept], values, rcond=None)[0]
        if found.min() >= 0:
            coefficients = np.zeros(rows.shape[1])
            coefficients[kept] = found / scale[kept]
            return coefficients
        kept = np.delete(kept, found.argmin())


def _extrapolated(coefficients: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Beyond the longest measured step, continue with the last measured slope."""
    for column in range(2, len(KNOTS) + 1):
        if not rows[:, column].any():
            coefficients[column] = coefficients[column - 1]
    return coefficients
