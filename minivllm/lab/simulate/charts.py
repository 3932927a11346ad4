"""Small text charts for the terminal: a distribution, and a time series.

Bars have a resolution of an eighth of a character. The distribution's axis is logarithmic, because
waiting times differ by a factor of a thousand.
"""

import numpy as np

_EIGHTHS = " ▁▂▃▄▅▆▇█"


def columns(heights: np.ndarray, rows: int) -> list[str]:
    """Draw bars with `heights` from 0 to 1 as `rows` lines, top first. No bar over 0 is empty."""
    eighths = np.ceil(np.clip(heights, 0, 1) * rows * 8).astype(int)
    return [
        "".join(_EIGHTHS[min(max(height - 8 * row, 0), 8)] for height in eighths)
        for row in reversed(range(rows))
    ]


def distribution(values: np.ndarray, width: int, rows: int) -> list[str]:
    """Draw the cumulative distribution of `values` (all over 0) on a logarithmic axis."""
    ordered = np.sort(np.maximum(values, 1e-9))
    axis = np.geomspace(ordered[0], max(ordered[-1], ordered[0] * 1.001), width)
    shares = np.searchsorted(ordered, axis * (1 + 1e-12), side="right") / len(ordered)
    left, right = f"{ordered[0]:.3g} s", f"{ordered[-1]:.3g} s"
    return [*columns(shares, rows), left + right.rjust(width - len(left))]


def over_time(
    began: np.ndarray, seconds: np.ndarray, values: np.ndarray, end: float, width: int
) -> np.ndarray:
    """Average a step function over `width` equal intervals from 0 to `end`.

    The function has the value `values[i]` for `seconds[i]`, starting at `began[i]`, and is 0
    elsewhere.
    """
    edges = np.linspace(0.0, end, width + 1)
    # Integral up to each edge: all steps that have ended, plus a part of the running step.
    area = np.concatenate([[0.0], np.cumsum(values * seconds)])
    index = np.searchsorted(began, edges, side="right") - 1
    inside = np.maximum(index, 0)
    part = np.clip(edges - began[inside], 0, seconds[inside]) * values[inside]
    integral = np.where(index < 0, 0.0, area[inside] + part)
    return np.diff(integral) / (end / width)
